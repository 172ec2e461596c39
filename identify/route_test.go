package identify

import "testing"

func TestHostAndPath(t *testing.T) {
	for in, want := range map[string]string{"Example.COM:80": "example.com", "example.com.": "example.com",
		"[2001:DB8::1]:80": "2001:db8::1", "[::1]": "::1", "": ""} {
		if got := Host(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	for in, want := range map[string]string{"": "/", "*": "/*", "//a/./b/../c/": "/a/c", "/": "/"} {
		if got := Path(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}
