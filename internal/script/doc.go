// Package script prints the records of a recording one by one: as perf script does, in the layout that programs read which were made for
// it, and as JSON.
package script
