package stat

import "math"

// stats computes the mean of a series of numbers and its standard error by Welford's method: in one pass, and without the loss of precision
// of sums of squares. The zero value is an empty series.
//
// The text behind "+-" is one standard error of the mean, as in perf: with many runs, the true mean is that near in about two of three
// series. For few runs, it is not widened to a confidence interval (by Student's t).
type stats struct {
	n    int
	mean float64 // 0 for an empty series
	m2   float64 // sum of the squared differences from the mean
}

// add adds a number to the series.
func (s *stats) add(v float64) {
	s.n++
	delta := v - s.mean
	s.mean += delta / float64(s.n)
	s.m2 += delta * (v - s.mean)
}

// stdErr returns the standard error of the mean: sqrt(variance/n), with the variance estimated from n-1 degrees of freedom. It returns 0
// for fewer than two numbers, because then it is unknown.
func (s *stats) stdErr() float64 {
	if s.n < 2 {
		return 0
	}
	return math.Sqrt(s.m2 / float64(s.n-1) / float64(s.n))
}

// relStdErr returns the standard error in percent of the mean, and 0 for a mean of 0.
func (s *stats) relStdErr() float64 {
	if s.mean == 0 {
		return 0
	}
	return 100 * s.stdErr() / math.Abs(s.mean)
}
