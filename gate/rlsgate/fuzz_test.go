package rlsgate

import (
	"fmt"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"weir"
)

// FuzzFile: whatever stands in a file gives rules, or mistakes with a place in the file.
func FuzzFile(f *testing.F) {
	for _, e := range examples {
		f.Add(e.file)
	}
	f.Add(randomFile)
	f.Add("domain: d\ndescriptors:\n- &a {key: a, rate_limit: &l {unit: day}}\n- <<: [*a, *a]\n  key: b\n  " +
		"rate_limit: *l\n")
	f.Add("domain: d\n---\n? [x]\n: !!y {\n")
	f.Fuzz(func(t *testing.T, text string) {
		left := 1000
		c := compiler{reader: reader{file: "f"}, into: &Imported{domains: map[string]*level{}}, left: &left}
		c.compile(text)
		if len(c.errs) == 0 && len(c.into.domains) != 1 {
			t.Errorf("%d domains, and no mistake", len(c.into.domains))
		}
		for _, err := range c.errs {
			fe, line, column := err.(*weir.FieldError), 0, 0
			if fe.Path != "f" {
				if n, _ := fmt.Sscanf(fe.Path, "f:%d:%d", &line, &column); n != 2 || line < 1 {
					t.Errorf("a mistake at %q", fe.Path)
				}
			}
			if fe.Msg == "" || line > strings.Count(text, "\n")+strings.Count(text, "\r")+2 {
				t.Errorf("a mistake in line %d: %v", line, fe)
			}
		}
		for _, l := range c.into.domains {
			l.each(func(r *rule) {
				if !r.unlimited && !r.Unit.valid() {
					t.Errorf("a rule without a unit: %+v", r)
				}
			})
		}
	})
}

// A plainRule is a descriptor of a file, written out from the domain on.
type plainRule struct {
	path  []string // composite names
	share []bool
	limit string // "" for none
}

// FuzzMatch compares the matcher with one that says in plain words what the format's documentation says.
func FuzzMatch(f *testing.F) {
	f.Add("a=10,a_x=5,a_x/b=3,a_x/b_y*!=4,a_y*=7,a_y*/c=8,b_=2,*=1", "a=x,b=y1")
	f.Add("a_b_c=1,a=2,a_*=3", "a_b=c")
	f.Add("a/b/c=1,a/b_x*!/c_*=2", "a=1,b=xy,c=")
	f.Fuzz(func(t *testing.T, file, ask string) {
		var rules []plainRule
		top := newLevel()
		seen := map[string]bool{}
		for text := range strings.SplitSeq(file, ",") {
			if len(rules) > 50 {
				return
			}
			names, limit, _ := strings.Cut(text, "=")
			r := plainRule{limit: limit}
			at := top
			for _, name := range strings.Split(names, "/") {
				name, share := strings.CutSuffix(name, "!")
				if name == "" || share && !strings.HasSuffix(name, "*") {
					return
				}
				r.path, r.share = append(r.path, name), append(r.share, share)
				next := at.below[name]
				if next == nil {
					next = newLevel()
					at.below[name] = next
					if strings.HasSuffix(name, "*") {
						at.wildcards = append(at.wildcards, wildcard{strings.TrimSuffix(name, "*"), next})
					}
					if share {
						next.shared = name
					}
				}
				r.share[len(r.share)-1] = next.shared != ""
				at = next
			}
			id := strings.Join(r.path, "/")
			if seen[id] {
				return
			}
			seen[id] = true
			if limit != "" {
				at.rule = &rule{name: limit}
			}
			rules = append(rules, r)
		}
		d := descriptors(strings.ReplaceAll(ask, " ", ""))
		if strings.HasPrefix(ask, "+") || strings.HasPrefix(ask, "limit=") {
			return
		}
		key, got := top.match(nil, "dom", d[0].Entries)
		name := ""
		if got != nil {
			name = got.name
		}
		wantName, wantKey := plainMatch(rules, d[0].Entries)
		if name != wantName || got != nil && string(key) != wantKey {
			t.Errorf("%q on %q: rule %q for %q, want %q for %q", ask, file, name, key, wantName, wantKey)
		}
	})
}

// plainMatch finds the limit and what is counted: level by level, of all descriptors that begin with what has been
// matched so far, the one that is the entry itself, else the first wildcard, else the one with the key alone.
func plainMatch(rules []plainRule, entries []*common.RateLimitDescriptor_Entry) (limit, counted string) {
	var path []string
	counted = "dom_"
	for _, e := range entries {
		exact, star, bare, shared := "", "", "", false
		for _, r := range rules {
			if len(r.path) <= len(path) || strings.Join(r.path[:len(path)], "/") != strings.Join(path, "/") {
				continue
			}
			switch name := r.path[len(path)]; {
			case name == e.Key+"_"+e.Value:
				exact = name
			case strings.HasSuffix(name, "*") && strings.HasPrefix(e.Key+"_"+e.Value, strings.TrimSuffix(name, "*")) &&
				star == "":
				star, shared = name, r.share[len(path)]
			}
			if r.path[len(path)] == e.Key {
				bare = e.Key
			}
		}
		value := e.Value
		switch {
		case exact != "":
			path = append(path, exact)
		case star != "":
			path = append(path, star)
			if rest := strings.TrimPrefix(star, e.Key+"_"); shared && rest != "" {
				value = rest
			}
		case bare != "":
			path = append(path, bare)
		default:
			return "", ""
		}
		counted += fmt.Sprintf("%s_%s_", e.Key, value)
	}
	for _, r := range rules {
		if strings.Join(r.path, "/") == strings.Join(path, "/") {
			return r.limit, counted
		}
	}
	return "", ""
}
