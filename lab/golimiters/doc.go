// Package golimiters measures the limits of weir/throttle/quota beside other limiters for Go programs. It is a module of
// its own: what the others need is no business of weir's.
//
//	go test -C lab/golimiters -bench . -benchtime 400000x -count 15
package golimiters
