package identify

import (
	"path"
	"strings"
)

// Host returns a host as rules know it: lower case, without port, brackets and the dot at the end.
func Host(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Path returns a path as rules know it, so that // and /./ cannot dodge one. What goes to the upstream is the path as it
// came.
func Path(p string) string {
	if p == "" {
		return "/"
	}
	if p[0] != '/' {
		p = "/" + p
	}
	return path.Clean(p)
}
