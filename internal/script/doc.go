// Package script prints the records of a recording one by one: in the layout of perf script, which other programs parse, or as JSON.
package script
