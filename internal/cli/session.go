package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/control"
	"github.com/bperf/bperf/internal/session"
)

// sessionOptions are the flags of stat, record and profile that control when a session measures.
type sessionOptions struct {
	delay, timeout int // ms
	control        string
}

func (o *sessionOptions) addControl(f *pflag.FlagSet) {
	f.StringVar(&o.control, "control", "", "take enable, disable, ping and stop from `fd:CTL[,ACK]` or fifo:CTL[,ACK]")
}

// check returns an error for invalid values.
func (o *sessionOptions) check(given func(string) bool) error {
	bad := badCombinationIf
	return firstError(
		bad(given("timeout") && o.timeout < 10, "--timeout %d: at least 10 ms", o.timeout),
		bad(o.delay < -1, "-D %d: milliseconds, or -1 to start disabled", o.delay),
		bad(o.delay == -1 && o.control == "", "-D -1 starts disabled and needs --control to be enabled"),
	)
}

// spec returns a session for the command, without a target.
func (o *sessionOptions) spec(command []string) session.Spec {
	return session.Spec{Command: command, Delay: time.Duration(max(o.delay, 0)) * time.Millisecond, StartDisabled: o.delay == -1,
		Timeout: time.Duration(o.timeout) * time.Millisecond}
}

// openControl opens the control channel of --control. It returns nil without that flag.
func (o *sessionOptions) openControl(note func(string)) (*control.Channel, error) {
	if o.control == "" {
		return nil, nil
	}
	c, err := control.Open(o.control, note)
	if err != nil {
		return nil, badOption(err)
	}
	return c, nil
}
