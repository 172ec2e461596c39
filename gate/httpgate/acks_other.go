//go:build !linux

package httpgate

// On this system a client has taken what the system took for it.
func (*wire) acks() bool   { return false }
func (*wire) taken() int64 { return 0 }
