package quota

import (
	"slices"
	"strings"

	"weir"
)

func (m *Match) always() bool {
	return len(m.Methods) == 0 && len(m.Hosts) == 0 && len(m.Paths) == 0 && len(m.Plans) == 0
}

// matches reports whether the policy is about an event of this route and plan. Any reading of the path and the method
// will do: servers read them differently, and nobody must dodge a limit by that.
func (m *Match) matches(r *weir.Route, plan string) bool {
	return anyReading(m.Methods, r.Method, r.AlsoMethods, strings.EqualFold) &&
		anyOf(m.Hosts, r.Host, matchHost) &&
		anyReading(m.Paths, r.Path, r.Also, matchPath) &&
		(len(m.Plans) == 0 || slices.Contains(m.Plans, plan))
}

func anyReading(patterns []string, value string, also []string, match func(pattern, value string) bool) bool {
	if anyOf(patterns, value, match) {
		return true
	}
	for _, other := range also {
		if other == weir.Any || anyOf(patterns, other, match) {
			return true
		}
	}
	return false
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

// matchPath walks pattern and path by segment and allocates nothing. It ignores case, as IIS and Express do.
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
		if want != have && (want != "*" || have == "") && !strings.EqualFold(want, have) {
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
