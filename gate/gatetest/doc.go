// Package gatetest is what the tests of gates share: waiting for what must come, logs that may be read while they are
// written, throttles that do what a test says, and certificates.
package gatetest
