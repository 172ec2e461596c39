package httpgate

import "testing"

// Small bodies need a small buffer, large ones get a large one, and one more than there are large ones goes on with a
// small one.
func TestCopiersShareLargeBuffers(t *testing.T) {
	inUse := largeInUse.Load()
	var all []*copier
	defer func() {
		for _, c := range all {
			c.free()
			c.free()
		}
		if n := largeInUse.Load(); n != inUse {
			t.Errorf("%d are in use at the end", n)
		}
	}()
	large := 0
	for range maxLarge + 1 {
		c := new(copier)
		all = append(all, c)
		for copied := 0; copied < len(largeBuffer{}); copied += len(buffer{}) {
			if n := len(c.buffer()); n != len(buffer{}) {
				t.Fatalf("%d bytes after %d", n, copied)
			}
			c.copied += len(buffer{})
		}
		switch n := len(c.buffer()); n {
		case len(largeBuffer{}):
			large++
		case len(buffer{}):
		default:
			t.Fatal(n)
		}
	}
	if want := maxLarge - int(inUse); large != want {
		t.Errorf("%d large ones, want %d", large, want)
	}
	last := all[maxLarge]
	if len(last.buffer()) != len(buffer{}) {
		t.Error("the last one has a large one")
	}
	all[0].free()
	if len(last.buffer()) != len(largeBuffer{}) {
		t.Error("the last one does not get the one that was given back")
	}
}
