package metric

import (
	"math"
	"strings"
)

// nan is the value of what is not known.
var nan = math.NaN()

// Facts are what expressions can ask of the machine and of the session. They are constant while it runs.
type Facts struct {
	Literals map[string]float64     // by name in lower case, without #
	HasEvent func(name string) bool // reports whether the machine has an event
	IsCPU    func(id string) bool   // reports whether the ID, as in perf's tables, is that of the machine's CPU
}

// Values are the readings that an expression is computed from.
type Values struct {
	Count   func(event string) float64 // NaN without a reading
	Sources func(event string) float64 // the number of PMUs that the event was counted on
}

// Eval computes the expression. It returns NaN if the expression needs a reading that is missing, or divides by 0. Only parts of it that do
// not decide its value can lack readings.
func (e *Expr) Eval(f *Facts, v Values) float64 {
	ev := evaluation{facts: f, values: v, metrics: make(map[*Expr]float64)}
	return ev.of(e)
}

// evaluation computes an expression and the metrics that it refers to, each once.
type evaluation struct {
	facts   *Facts
	values  Values
	metrics map[*Expr]float64
}

func (ev *evaluation) of(e *Expr) float64 {
	v, known := ev.metrics[e]
	if !known {
		v = ev.node(e.root)
		ev.metrics[e] = v
	}
	return v
}

func (ev *evaluation) node(n *node) float64 {
	switch n.op {
	case number:
		return n.number
	case name:
		return ev.values.Count(n.name)
	case metric:
		return ev.of(n.metric)
	case sources:
		return ev.values.Sources(n.name)
	case literal, available, compareID:
		return ev.facts.value(n)
	case choose:
		return ev.choice(n)
	}
	args := make([]float64, len(n.args))
	for i, a := range n.args {
		args[i] = ev.node(a)
	}
	return compute(n.op, args)
}

// choice computes only the branch that the condition selects.
func (ev *evaluation) choice(n *node) float64 {
	switch condition := ev.node(n.args[1]); {
	case math.IsNaN(condition):
		return nan
	case condition != 0:
		return ev.node(n.args[0])
	default:
		return ev.node(n.args[2])
	}
}

// value returns the value of a literal, has_event or strcmp_cpuid_str.
func (f *Facts) value(n *node) float64 {
	switch n.op {
	case literal:
		if v, known := f.Literals[strings.ToLower(n.name)]; known {
			return v
		}
		return nan
	case available:
		return truth(f.HasEvent(n.name))
	default:
		return truth(f.IsCPU(n.name))
	}
}

// compute applies an operator or function. As in perf, & and | are logical, and ^ and % convert their operands to whole numbers. Dividing
// by 0 gives NaN, except in d_ratio, where it gives 0.
func compute(o op, args []float64) float64 {
	a := args[0]
	if o == negate {
		return -a
	}
	b := args[1]
	if known, is := decided(o, a, b); is {
		return known
	}
	if !finite(a) || !finite(b) {
		return nan
	}
	switch o {
	case add:
		return a + b
	case subtract:
		return a - b
	case multiply:
		return a * b
	case divide:
		return quotient(a, b, nan)
	case ratio:
		return quotient(a, b, 0)
	case less:
		return truth(a < b)
	case greater:
		return truth(a > b)
	case and:
		return truth(a != 0 && b != 0)
	case or:
		return truth(a != 0 || b != 0)
	case minimum:
		return min(a, b)
	case maximum:
		return max(a, b)
	default:
		return whole(o, a, b)
	}
}

// decided returns the result of & or | if one operand decides it, whatever the other is.
func decided(o op, a, b float64) (v float64, is bool) {
	switch {
	case o == and && (a == 0 || b == 0):
		return 0, true
	case o == or && (finite(a) && a != 0 || finite(b) && b != 0):
		return 1, true
	}
	return 0, false
}

// quotient returns a/b, or otherwise if b is 0.
func quotient(a, b, otherwise float64) float64 {
	if b == 0 {
		return otherwise
	}
	return a / b
}

// whole applies an operator to whole numbers.
func whole(o op, a, b float64) float64 {
	const limit = 1 << 63
	if math.Abs(a) >= limit || math.Abs(b) >= limit {
		return nan
	}
	x, y := int64(a), int64(b)
	switch {
	case o == xor:
		return float64(x ^ y)
	case y == 0:
		return nan
	default:
		return float64(x % y)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
