//go:build unix && !linux

package httpgate

// hangups are polled here.
type hangups = polledHangups

func newHangups() *hangups { return newPolledHangups() }
