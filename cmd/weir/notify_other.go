//go:build !linux

package main

// monotonic is for service managers that only Linux has.
func monotonic() string { return "" }
