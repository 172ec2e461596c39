//go:build !unix

package httpgate

import "testing"

// descriptors cannot be asked for here.
func descriptors(testing.TB, uint64) uint64 { return 10_000 }
