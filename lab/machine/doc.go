// Package machine has what measurements need of the machine that they run on: programs in processes of their own, free
// addresses, how busy the processors are, and what the machine is. It also has a small service to measure with, and the
// client side of it.
package machine
