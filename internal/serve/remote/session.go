package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Config says which sessions a node runs.
type Config struct {
	Program string        // path of bperf
	Longest time.Duration // of a session
	Bytes   int64         // that a session may send: at the limit it is asked to end
	Log     *slog.Logger
}

// Limits of a session besides those of its Config.
const (
	// Grace is how long a session may take to end when it is asked to: to find symbols takes time.
	Grace = 30 * time.Second
	// MaxBody is the most bytes in the body of a request: the request, and what may follow.
	MaxBody = maxRequest + 64

	killTime     = 5 * time.Second // to send what a killed session has left
	tail         = 16 << 20        // bytes that a session may send after the limit, so that its recording is whole
	requestTime  = 10 * time.Second
	contentType  = "application/vnd.bperf.session"
	stopLine     = "stop" // what a client sends to end its session in order
	maxLoggedArg = 1000   // bytes of arguments in the log
)

// Server runs sessions. Its methods may be called at the same time.
type Server struct {
	config Config

	mu       sync.Mutex
	stopped  bool
	sessions map[*session]struct{}
	tally    *tally
	running  sync.WaitGroup
}

// NewServer returns a server without sessions.
func NewServer(config Config) *Server {
	return &Server{config: config, sessions: make(map[*session]struct{}), tally: newTally()}
}

// Stop asks all sessions to end in order. Further ones are refused.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for one := range s.sessions {
		one.stop("bperf serve ends on that node")
	}
}

// Finish asks all sessions to end in order and waits for that. It takes little longer than Grace at most.
func (s *Server) Finish() {
	s.Stop()
	s.running.Wait()
}

// Close ends all sessions at once and waits for that.
func (s *Server) Close() {
	s.Stop()
	s.mu.Lock()
	for one := range s.sessions {
		one.abort(errClosed)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// These are causes of a session that is killed.
var (
	errClosed = errors.New("bperf serve ended")
	errGone   = errors.New("the client went away")
	errSlow   = errors.New("it did not end when it was asked to")
	errFlood  = errors.New("it sent too many bytes after the limit")
)

// ServeHTTP runs the session that a request asks for. The caller limits their number and checks roles.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	begin := time.Now()
	// The client may send stop while the response is sent.
	if err := errors.Join(control.EnableFullDuplex(), control.SetReadDeadline(begin.Add(requestTime))); err != nil {
		s.config.Log.Debug("prepare the connection of a session", "error", err)
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Connection", "close")
	body := bufio.NewReaderSize(r.Body, maxRequest)
	line, err := body.ReadSlice('\n')
	if err != nil && !(errors.Is(err, io.EOF) && len(line) > 0) {
		s.tally.refused.Add(1)
		http.Error(w, fmt.Sprintf("the request is not a line of at most %d bytes", maxRequest), http.StatusBadRequest)
		return
	}
	request, err := parseRequest(line)
	if err == nil {
		err = request.check(s.config.Longest)
	}
	if err != nil {
		s.tally.refused.Add(1)
		s.config.Log.Debug("refused a session", "client", who(r), "reason", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := control.SetReadDeadline(begin.Add(s.config.Longest + 2*Grace)); err != nil {
		panic(http.ErrAbortHandler) // the connection is gone
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	one := &session{server: s, client: who(r), begin: begin, request: request, w: w, control: control, abort: cancel, interrupted: make(chan struct{})}
	if !s.add(one) {
		s.tally.refused.Add(1)
		w.Header().Set("Retry-After", "10")
		http.Error(w, "bperf serve ends on this node", http.StatusServiceUnavailable)
		return
	}
	defer s.remove(one)
	defer cancel(nil)
	one.serve(ctx, body)
}

func (s *Server) add(one *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.sessions[one] = struct{}{}
	s.tally.started[one.request.Command]++
	s.running.Add(1)
	return true
}

func (s *Server) remove(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, one)
	s.tally.end(one.request.Command, one.outcome, one.use.measure())
	s.running.Done()
}

// who returns the client of a request, for the log.
func who(r *http.Request) string {
	client := r.RemoteAddr
	if client == "" || client == "@" {
		client = "unix"
	}
	if user, _, ok := r.BasicAuth(); ok {
		client += " user " + user[:min(len(user), 100)]
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		name := r.TLS.VerifiedChains[0][0].Subject.CommonName
		client += " certificate " + name[:min(len(name), 100)]
	}
	return client
}

// session is bperf that runs for a client.
type session struct {
	server  *Server
	client  string
	begin   time.Time
	request *Request
	control *http.ResponseController
	use     use
	outcome Outcome                 // set before the session is removed
	sent    atomic.Int64            // bytes of both streams
	abort   context.CancelCauseFunc // kills bperf

	once        sync.Once
	interrupted chan struct{} // closed when bperf is asked to end
	reason      string        // why the node asked; empty if the client did. Set before interrupted is closed

	mu  sync.Mutex // of what follows
	w   io.Writer
	buf []byte
}

// stop asks bperf to end in order.
func (s *session) stop(reason string) {
	s.once.Do(func() {
		s.reason = reason
		close(s.interrupted)
	})
}

// serve runs bperf, sends its output and how it ended, and logs that.
func (s *session) serve(ctx context.Context, body *bufio.Reader) {
	log := s.server.config.Log.With("client", s.client, "command", s.request.Command, "args", s.request.shown())
	log.Info("session begins")
	s.w.(http.ResponseWriter).Header().Set("Content-Type", contentType)
	var listening sync.WaitGroup
	listening.Go(func() { s.listen(body) })
	state, err := s.run(ctx)
	end := s.end(context.Cause(ctx), state, err)
	s.control.SetReadDeadline(time.Now()) // ends listen, and the context with it; an error means that the connection is gone
	listening.Wait()
	if end.Reason != errGone.Error() {
		payload, err := json.Marshal(end)
		if err == nil {
			err = s.send(Final, payload)
		}
		if err != nil && end.Reason == "" {
			end.Reason = errGone.Error()
		}
	}
	s.outcome = end.outcome()
	log.Info("session ended", "seconds", time.Since(s.begin).Seconds(), "bytes", s.sent.Load(), "status", end.Status, "reason", end.Reason)
}

// listen reads what the client sends after its request, until it ends that or the session ends.
func (s *session) listen(body *bufio.Reader) {
	line, err := body.ReadSlice('\n')
	switch {
	case err == nil && strings.TrimSpace(string(line)) == stopLine:
		s.stop("")
	case errors.Is(err, io.EOF) && len(line) == 0: // the context still ends when the client goes away
	case err == nil || !errors.Is(err, os.ErrDeadlineExceeded):
		s.abort(errGone)
	}
	if err == nil { // a client that has sent stop can still go away
		if _, err := body.ReadByte(); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
			s.abort(errGone)
		}
	}
}

// run runs bperf to its end.
func (s *session) run(ctx context.Context) (*os.ProcessState, error) {
	config := &s.server.config
	args := append(strings.Fields(s.request.Command), commands()[s.request.Command].own...)
	cmd := exec.Command(config.Program, append(args, s.request.Args...)...)
	cmd.Args[0] = "bperf"
	// The signal is sent when the thread ends that started the process, which is locked until the process has ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.control.Flush(); err != nil { // the client learns that the session begins
		return nil, errGone
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.use.pid.Store(int64(cmd.Process.Pid))
	var pumps, watch sync.WaitGroup
	over := make(chan struct{})
	watch.Go(func() { s.watch(ctx, cmd.Process, over) })
	pumps.Go(func() { s.pump(Stdout, stdout) })
	pumps.Go(func() { s.pump(Stderr, stderr) })
	pumps.Wait()
	s.use.measure()
	s.use.pid.Store(0) // from now on, the ID may be that of another process
	err = cmd.Wait()   // an exit status is an error, too
	close(over)
	watch.Wait()
	if cmd.ProcessState == nil {
		return nil, err
	}
	s.use.raise(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	return cmd.ProcessState, nil
}

// watch ends bperf when it has to.
func (s *session) watch(ctx context.Context, process *os.Process, over <-chan struct{}) {
	longest := s.server.config.Longest
	limit := time.NewTimer(longest)
	defer limit.Stop()
	interrupted := s.interrupted
	var grace <-chan time.Time
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			process.Kill()                                       // fails if it has ended
			s.control.SetWriteDeadline(time.Now().Add(killTime)) // a client that reads nothing must not hold up the end
			return
		case <-limit.C:
			s.stop(fmt.Sprintf("the longest session of that node is %v", longest))
		case <-interrupted:
			interrupted = nil
			process.Signal(syscall.SIGINT)
			grace = time.After(Grace)
		case <-grace:
			s.abort(errSlow)
		}
	}
}

// pump sends one of the streams of bperf until it ends.
func (s *session) pump(stream Stream, from io.Reader) {
	limit := s.server.config.Bytes
	buf := make([]byte, maxFrame)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			sent := s.sent.Add(int64(n))
			switch {
			case sent > limit+tail:
				s.abort(errFlood)
				return
			case sent > limit:
				s.stop(fmt.Sprintf("a session of that node sends at most %d bytes", limit))
			}
			if s.send(stream, buf[:n]) != nil {
				s.abort(errGone)
				return
			}
		}
		if err != nil { // the end of the stream: pipes have no other errors
			return
		}
	}
}

// send sends a frame.
func (s *session) send(stream Stream, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = appendFrame(s.buf[:0], stream, payload)
	if _, err := s.w.Write(s.buf); err != nil {
		return err
	}
	return s.control.Flush()
}

// end returns how the session ended. cause is the cause for which it was killed, or nil.
func (s *session) end(cause error, state *os.ProcessState, err error) End {
	end := End{Status: 1}
	if state != nil {
		end.Status = state.ExitCode()
		if wait, ok := state.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
			end.Status = 128 + int(wait.Signal())
		}
	}
	select {
	case <-s.interrupted:
		end.Reason = s.reason
	default:
	}
	switch {
	case errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		end.Reason = errGone.Error()
	case cause != nil:
		end.Reason = cause.Error()
	case err != nil:
		end.Reason = fmt.Sprintf("start bperf: %v", err)
	}
	return end
}
