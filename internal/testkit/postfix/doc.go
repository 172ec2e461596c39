// Package postfix starts a Postfix for tests and measurements, in a folder of its own and on free ports. It is
// independent of the machine's own Postfix, and ends with the test, however that ends.
//
// Most callers want Start, and a Sink for the mail that comes out. Measurements call Run and Stop.
package postfix
