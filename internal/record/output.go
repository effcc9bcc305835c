package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/record/host"
	"github.com/bperf/bperf/perfdata"
)

// output writes one file, or with Config.Switch one file after the other, or a pipe.
type output struct {
	cfg     *Config
	options perfdata.Options
	end     func(*perfdata.Writer) error // sets the features of a file before it is closed
	writer  *perfdata.Writer
	file    *reserved // nil for a pipe
	name    string

	files    int      // number of files so far
	kept     []string // finished files with Config.Switch, the oldest first
	bytes    int64    // size of the finished files
	original int64    // bytes before compression
	closed   bool
}

// newOutput begins the output. start has the features that are known before the records.
func newOutput(cfg *Config, events []*perfdata.Event, start host.Features, end func(*perfdata.Writer) error) (*output, error) {
	o := &output{cfg: cfg, name: cfg.Output, end: end, options: perfdata.Options{Events: events, StartFeatures: start, Compress: cfg.Compression}}
	return o, o.begin()
}

// KeepOld renames a file that a recording is about to replace to NAME.old, which replaces an older one, as in perf.
func KeepOld(name string) error {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	if err := os.Rename(name, name+".old"); err != nil {
		return fmt.Errorf("keep the recording that is there already: %w", err)
	}
	return nil
}

func (o *output) begin() (err error) {
	o.files++
	o.closed = false
	if o.cfg.Stream != nil {
		o.writer, err = perfdata.NewPipeWriter(o.cfg.Stream, o.options)
		return err
	}
	if o.name == "-" {
		o.writer, err = perfdata.NewPipeWriter(os.Stdout, o.options)
		return err
	}
	if err := KeepOld(o.name); err != nil {
		return err
	}
	f, err := os.OpenFile(o.name, os.O_CREATE|os.O_RDWR|os.O_TRUNC|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("begin a recording: %w", err)
	}
	o.file = &reserved{File: f}
	if o.writer, err = perfdata.NewWriter(o.file, o.options); err != nil {
		f.Close()
		return fmt.Errorf("begin a recording: %w", err)
	}
	return nil
}

// append writes records in the encoding of a ring.
func (o *output) append(records ...[]byte) error {
	n := 0
	for _, r := range records {
		n += len(r)
	}
	if err := o.file.room(n); err != nil {
		return o.explain(err)
	}
	if err := o.writer.Append(records...); err != nil {
		return o.explain(err)
	}
	return nil
}

// write encodes a record and writes it.
func (o *output) write(misc perfdata.Misc, v perfdata.Value) error {
	const most = 1 << 16 // bytes of a record
	if err := o.file.room(most); err != nil {
		return o.explain(err)
	}
	if err := o.writer.Write(misc, v); err != nil {
		return o.explain(err)
	}
	return nil
}

// explain adds the consequence for the recording to a write error.
func (o *output) explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("write %s: %w. What was recorded up to there can be read", o.name, err)
	}
	return fmt.Errorf("write %s: %w", o.name, err)
}

// size returns the number of bytes of records in the file.
func (o *output) size() int64 {
	_, after := o.writer.Written()
	return after
}

// finish ends the file with its features. Calling it again does nothing.
func (o *output) finish() error {
	if o.closed {
		return nil
	}
	o.closed = true
	err := o.end(o.writer)
	if closeErr := o.writer.Close(); err == nil {
		err = closeErr
	}
	before, after := o.writer.Written()
	o.bytes, o.original = o.bytes+after, o.original+before
	if o.file == nil {
		return err
	}
	if closeErr := o.file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		err = o.explain(err)
	}
	if o.cfg.Switch.on() || o.cfg.TimedName {
		if renameErr := o.keep(); err == nil {
			err = renameErr
		}
	}
	return err
}

// next ends the file and begins another one.
func (o *output) next() error {
	if err := o.finish(); err != nil {
		return err
	}
	return o.begin()
}

// keep renames a finished file to a name with the time, and removes the oldest file if there are too many. It leaves devices alone.
func (o *output) keep() error {
	if info, err := os.Stat(o.name); err == nil && !info.Mode().IsRegular() {
		return nil
	}
	name := o.timedName()
	for exists(name) { // perf's names are no finer, and perf overwrites the file
		time.Sleep(time.Millisecond)
		name = o.timedName()
	}
	if err := os.Rename(o.name, name); err != nil {
		return fmt.Errorf("keep a recording: %w", err)
	}
	o.cfg.Notify(fmt.Sprintf("[ %s: Dump %s ]", o.cfg.Name, name))
	o.kept = append(o.kept, name)
	if most := o.cfg.Switch.MaxFiles; most > 0 && len(o.kept) > most {
		if err := os.Remove(o.kept[0]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the oldest recording: %w", err)
		}
		o.kept = o.kept[1:]
	}
	return nil
}

// timedName returns the name with the current time, to a hundredth of a second.
func (o *output) timedName() string {
	now := time.Now()
	return fmt.Sprintf("%s.%s%02d", o.name, now.Format("20060102150405"), now.Nanosecond()/1e7)
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// writer writes records to the output and tallies them.
type writer struct {
	out   *output
	tally *tally
	own   *ownSamples // nil if they are kept
}

// emit writes a record that bperf made itself.
func (w *writer) emit(misc perfdata.Misc, v perfdata.Value) error {
	switch m := v.(type) {
	case *perfdata.Mmap:
		w.tally.mapped([]byte(m.Filename), m.PID)
	case *perfdata.Mmap2:
		if !m.Data {
			w.tally.mapped([]byte(m.Filename), m.PID)
		}
	}
	if w.tally.task != nil {
		w.tally.tasks++
		w.tally.task(v)
	}
	return w.out.write(misc, v)
}

// keep writes and tallies records of a ring, which come in two parts, without ownSamples. It does not tally records that could not be written.
func (w *writer) keep(first, rest []byte) error {
	before := *w.tally
	first, rest = w.own.drop(first, rest)
	if err := w.tally.add(first, rest); err != nil {
		return err
	}
	if len(w.tally.stray) > 0 {
		first, rest = withoutBuildIDBits(w.tally.stray, first, rest), nil
	}
	if err := w.out.append(first, rest); err != nil {
		*w.tally = before
		return err
	}
	return nil
}

// reserved is a file whose disk space is allocated in advance. If the disk becomes full, the records stop while there is still room for the
// features, which are written at the end.
type reserved struct {
	*os.File
	at        int64 // offset of the next write
	allocated int64 // bytes; -1 if the file system cannot allocate in advance
}

const (
	reserve = 1 << 20 // bytes reserved for the features
	ahead   = 4 << 20 // bytes to allocate at a time, beyond the reserve

	keepSize = 1 // FALLOC_FL_KEEP_SIZE from include/uapi/linux/falloc.h
)

// room returns an error if there is no room for n more bytes and the features. r may be nil, for a pipe, which always has room.
func (r *reserved) room(n int) error {
	if r == nil || r.allocated < 0 || r.at+int64(n)+reserve <= r.allocated {
		return nil
	}
	return r.grow(r.at + int64(n))
}

func (r *reserved) Write(b []byte) (int, error) {
	n, err := r.File.Write(b)
	r.at += int64(n)
	return n, err
}

// grow allocates space up to an offset, plus the reserve.
func (r *reserved) grow(to int64) error {
	for _, extra := range []int64{ahead, 0} { // without space for ahead, try less
		err := syscall.Fallocate(int(r.Fd()), keepSize, r.allocated, to+reserve+extra-r.allocated)
		switch {
		case err == nil:
			r.allocated = to + reserve + extra
			return nil
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
			if extra == 0 {
				return err
			}
		default: // no regular file, or not supported by the file system: continue without a reserve
			r.allocated = -1
			return nil
		}
	}
	return nil
}

func (r *reserved) Seek(offset int64, whence int) (int64, error) {
	at, err := r.File.Seek(offset, whence)
	r.at = at
	return at, err
}

// Close frees the unused space and closes the file.
func (r *reserved) Close() error {
	if r.allocated <= 0 {
		return r.File.Close()
	}
	end, err := r.File.Seek(0, io.SeekEnd)
	if err == nil {
		err = r.File.Truncate(end)
	}
	return errors.Join(err, r.File.Close())
}
