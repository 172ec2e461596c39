// Package machine has what measurements need of the machine that they run on: programs in processes of their own, free
// addresses, how busy the processors are, and what the machine is.
package machine
