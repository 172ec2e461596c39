//go:build !unix

package httpgate

// A freshReader would read the first bytes of a request without a buffer that waits for them. This system has no such
// way.
type freshReader struct{ raw any }

func (*freshReader) begin(*conn) {}

func (*freshReader) read() (*block, int, error) { panic("there is nothing to read from") }
