package quota

import "testing"

func TestMatchPath(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/", "/", true},
		{"/", "/a", false},
		{"/a", "/a", true},
		{"/a", "/a/", true},
		{"/a", "/ab", false},
		{"/a", "/a/b", false},
		{"/a/*", "/a/b", true},
		{"/a/*", "/a", false},
		{"/a/*", "/a/", false},
		{"/a/*", "/a/b/c", false},
		{"/*/b", "/a/b", true},
		{"/*/b", "/a/c", false},
		{"/a/**", "/a", true},
		{"/a/**", "/a/b/c", true},
		{"/a/**", "/ab", false},
		{"/**", "/", true},
		{"/**", "/a/b", true},
		{"/a/*/c/**", "/a/b/c/d/e", true},
		{"/a/*/c/**", "/a/b/d/e", false},
	} {
		if got := matchPath(c.pattern, c.path); got != c.want {
			t.Errorf("%s on %s: %v", c.pattern, c.path, got)
		}
	}
}

func TestMatchHost(t *testing.T) {
	for _, c := range []struct {
		pattern, host string
		want          bool
	}{
		{"example.com", "example.com", true},
		{"example.com", "api.example.com", false},
		{"*.example.com", "api.example.com", true},
		{"*.example.com", "a.b.example.com", true},
		{"*.example.com", "example.com", false},
		{"*.example.com", ".example.com", false},
		{"*.example.com", "badexample.com", false},
	} {
		if got := matchHost(c.pattern, c.host); got != c.want {
			t.Errorf("%s on %s: %v", c.pattern, c.host, got)
		}
	}
}
