package packaged

import (
	"slices"
	"testing"
)

func TestOptions(t *testing.T) {
	const page = `.SH "OPTIONS"
\-e, \-\-event=
.RS 4
\-a b
.RE
.sp
\-\-control=fifo:ctl\-fifo[,ack\-fifo], \-\-control=fd:ctl\-fd
.RS 4
.RE
\-\-pre, \-\-post
.RS 4
\-x \fISEP\fP, \-\-field\-separator SEP
.RS 4
\-e, \-\-event=
.RS 4
`
	want := []string{"stat: -e, --event", "stat: --control", "stat: --pre, --post", "stat: -x, --field-separator"}
	if got := options("stat", page); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
