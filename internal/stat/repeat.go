package stat

import "math"

// stats is the mean of a series of numbers and how far it can be trusted, by Welford's method: in one
// pass and without the loss of precision that sums of squares bring. The zero value is an empty series.
//
// What is printed behind "+-" is one standard error of the mean, as perf's is: in about two of
// three series of many runs the true mean is that near. It is not widened to a confidence interval (by Student's
// t) for a small number of runs.
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

// stdErr is the standard error of the mean: sqrt(variance/n), with the variance estimated from n-1
// degrees of freedom. It is 0 where a series has less than two numbers and there is no telling.
func (s *stats) stdErr() float64 {
	if s.n < 2 {
		return 0
	}
	return math.Sqrt(s.m2 / float64(s.n-1) / float64(s.n))
}

// relStdErr is the standard error in percent of the mean, and 0 for a mean of 0.
func (s *stats) relStdErr() float64 {
	if s.mean == 0 {
		return 0
	}
	return 100 * s.stdErr() / math.Abs(s.mean)
}
