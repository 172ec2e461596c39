// Package netlab makes networks for tests: namespaces that lead nowhere, with a cable between them. What it makes is
// gone when the test is, however that ends.
package netlab
