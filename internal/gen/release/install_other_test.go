//go:build !linux

package main

import "testing"

// checkInstall is for systems with packages of this kind.
func checkInstall(*testing.T, string) {}

// runImage is for systems that run images.
func runImage(*testing.T, []byte) {}
