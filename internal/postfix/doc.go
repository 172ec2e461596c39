// Package postfix starts a Postfix for tests and measurements: one of its own, in a folder of its own and on free
// ports, that knows nothing of the machine's. It is gone when the test is, however that ends.
//
// Most callers want Start, and a Sink for the mail that comes out. Who does not test but measures calls Run and Stop.
package postfix
