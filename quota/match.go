package quota

import (
	"slices"
	"strings"

	"weir"
)

// always reports whether everything matches.
func (m *Match) always() bool {
	return len(m.Methods) == 0 && len(m.Hosts) == 0 && len(m.Paths) == 0 && len(m.Plans) == 0
}

// matches reports whether the policy is about an event of this route and plan.
func (m *Match) matches(r *weir.Route, plan string) bool {
	return anyOf(m.Methods, r.Method, func(pattern, method string) bool { return pattern == method }) &&
		anyOf(m.Hosts, r.Host, matchHost) &&
		anyOf(m.Paths, r.Path, matchPath) &&
		(len(m.Plans) == 0 || slices.Contains(m.Plans, plan))
}

func anyOf(patterns []string, value string, match func(pattern, value string) bool) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, p := range patterns {
		if match(p, value) {
			return true
		}
	}
	return false
}

func matchHost(pattern, host string) bool {
	if below, wild := strings.CutPrefix(pattern, "*"); wild {
		return len(host) > len(below) && strings.HasSuffix(host, below)
	}
	return pattern == host
}

// matchPath walks pattern and path segment by segment, so that nothing is allocated.
func matchPath(pattern, path string) bool {
	if path != "/" {
		path = strings.TrimSuffix(path, "/")
	}
	for {
		want, restPattern, morePattern := cutSegment(pattern)
		if want == "**" {
			return true
		}
		have, restPath, morePath := cutSegment(path)
		if want != have && (want != "*" || have == "") {
			return false
		}
		if !morePattern || !morePath {
			// "/v1/**" is also about "/v1" itself.
			return morePattern == morePath || (morePattern && restPattern == "/**")
		}
		pattern, path = restPattern, restPath
	}
}

// cutSegment splits "/a/b/c" into "a" and "/b/c".
func cutSegment(path string) (segment, rest string, more bool) {
	path = strings.TrimPrefix(path, "/")
	i := strings.IndexByte(path, '/')
	if i < 0 {
		return path, "", false
	}
	return path[:i], path[i:], true
}
