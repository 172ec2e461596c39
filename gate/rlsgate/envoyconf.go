package rlsgate

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir"
	"weir/internal/readfile"
	"weir/internal/yamltree"
)

// Bounds on imported files. They keep mistakes in the files, which an operator writes, from filling the memory.
const (
	maxFiles  = 1000
	maxFile   = 1 << 20 // bytes
	maxLevels = 20      // of descriptors within descriptors
	maxRules  = 100_000 // descriptors in all files, including those that aliases repeat
)

// An Imported is what files of envoyproxy/ratelimit say: a tree of descriptors for each domain.
type Imported struct{ domains map[string]*level }

// Domains are the names of the domains, sorted.
func (i *Imported) Domains() []string { return slices.Sorted(maps.Keys(i.domains)) }

// A level is a descriptor of the file and those below it. A domain is one, too.
type level struct {
	below     map[string]*level // by key, or key_value
	wildcards []wildcard        // in the order of the file: the first that matches counts
	rule      *rule             // nil where nothing is limited
	// the pattern key_value* whose values are counted together; empty where each value is counted by itself
	shared string
}

// A wildcard is a descriptor that ends in a star.
type wildcard struct {
	prefix string // without the star
	level  *level
}

// A rule is the rate_limit of a descriptor.
type rule struct {
	Rule
	name      string
	replaces  []string
	unlimited bool
	shadow    bool // shadow_mode: what is over the limit is answered with OK
	quota     bool // quota_mode: the same
	told      *rls.RateLimitResponse_RateLimit
	counter   *counter
}

func (l *level) each(f func(*rule)) {
	if l.rule != nil {
		f(l.rule)
	}
	for _, below := range l.below {
		below.each(f)
	}
}

// Read reads a file, or the files of a folder that end in .yaml or .yml, in the order of their names. merge lets
// several files add to the same domain. The error joins a weir.FieldError for each mistake, whose path is a file, or a
// position as in file:line:column.
func Read(path string, merge bool) (*Imported, error) {
	files, err := filesOf(path)
	if err != nil {
		return nil, err
	}
	all := &Imported{domains: map[string]*level{}}
	left := maxRules
	var errs []error
	for _, file := range files {
		text, err := readFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c := compiler{reader: reader{file: file}, into: all, merge: merge, left: &left}
		c.compile(text)
		errs = append(errs, c.errs...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

func filesOf(path string) ([]string, error) {
	info, err := readfile.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := readfile.Within(path, func() ([]os.DirEntry, error) { return os.ReadDir(path) }) // sorted
	if err != nil {
		return nil, unreadable(path, err)
	}
	var files []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && !strings.HasPrefix(e.Name(), ".") &&
			(ext == ".yaml" || ext == ".yml") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	switch n := len(files); {
	case n == 0:
		return nil, &weir.FieldError{Path: path, Msg: "the folder has no files that end in .yaml or .yml",
			Hint: "name the folder that RUNTIME_ROOT, RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY make up"}
	case n > maxFiles:
		return nil, &weir.FieldError{Path: path, Msg: fmt.Sprintf("%d files are too many", n),
			Hint: fmt.Sprintf("at most %d", maxFiles)}
	}
	return files, nil
}

func readFile(path string) (string, error) {
	text, err := readfile.Read(path, maxFile)
	if errors.Is(err, readfile.ErrLarge) {
		return "", &weir.FieldError{Path: path, Msg: "the file is too large",
			Hint: fmt.Sprintf("at most %s; use a folder with several files instead", weir.Size(maxFile))}
	}
	if err != nil {
		return "", unreadable(path, err)
	}
	return string(text), nil
}

func unreadable(path string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return &weir.FieldError{Path: path, Msg: "cannot be read: " + err.Error()}
}

// A compiler makes domains of a file.
type compiler struct {
	reader
	into  *Imported
	merge bool
	left  *int // how many more descriptors there may be
}

// The keys that the format knows, by where they stand.
var (
	rootKeys       = []string{"domain", "descriptors"}
	descriptorKeys = []string{"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
		"detailed_metric", "value_to_metric",
		"share_threshold"}
	limitKeys   = []string{"unit", "requests_per_unit", "unlimited", "name", "replaces"}
	replaceKeys = []string{"name"}
)

func (c *compiler) compile(text string) {
	root := c.parse(text)
	if root == nil {
		return
	}
	fields := c.mapping(root, "the file", rootKeys)
	domain, _ := c.text(fields["domain"])
	if domain == "" && len(c.errs) == 0 {
		c.fail(root, "the file names no domain", "write domain: edge")
		return
	}
	top, known := c.into.domains[domain]
	switch {
	case known && !c.merge:
		c.fail(fields["domain"], fmt.Sprintf("the domain %q is configured twice", domain),
			"merge_domains: true lets several files add to it")
		return
	case !known:
		top = newLevel()
	}
	c.descriptors(top, fields["descriptors"], 1)
	if len(c.errs) == 0 {
		c.into.domains[domain] = top
	}
}

func newLevel() *level { return &level{below: map[string]*level{}} }

// descriptors puts those of a list below a level.
func (c *compiler) descriptors(into *level, n *yamltree.Node, depth int) {
	if depth > maxLevels {
		c.fail(n, fmt.Sprintf("descriptors are nested deeper than %d levels", maxLevels), "")
		return
	}
	for _, item := range c.list(n) {
		if *c.left--; *c.left < 0 {
			c.fail(item, fmt.Sprintf("there are more than %d descriptors", maxRules), "")
			return
		}
		c.descriptor(into, item, depth)
	}
}

func (c *compiler) descriptor(into *level, n *yamltree.Node, depth int) {
	before := len(c.errs)
	fields := c.mapping(n, "a descriptor", descriptorKeys)
	key, _ := c.text(fields["key"])
	value, _ := c.text(fields["value"])
	if key == "" && len(c.errs) == before {
		c.fail(n, "the descriptor has no key", "write key: remote_address")
	}
	// The original looks descriptors up by key and value joined, so that (a, b_c) and (a_b, c) are the same to it.
	name := key
	if value != "" {
		name += "_" + value
	}
	next := newLevel()
	star := strings.HasSuffix(name, "*")
	if c.bool(fields["share_threshold"]) {
		if !star {
			c.fail(fields["share_threshold"], "only a value that ends in * can share its threshold",
				"write value: "+value+"*, or leave share_threshold out")
		}
		next.shared = name
	}
	c.bool(fields["detailed_metric"]) // read, so that a value that is no bool is an error
	c.bool(fields["value_to_metric"])
	shadow, quota := c.bool(fields["shadow_mode"]), c.bool(fields["quota_mode"])
	if limit := fields["rate_limit"]; limit != nil && limit.Kind != yamltree.Null {
		if next.rule = c.limit(limit); next.rule != nil {
			next.rule.shadow, next.rule.quota = shadow, quota
		}
	}
	if _, twice := into.below[name]; twice && key != "" {
		c.fail(n, fmt.Sprintf("there is another descriptor %q on this level", name),
			"key and value together must differ")
	}
	c.descriptors(next, fields["descriptors"], depth+1)
	into.below[name] = next
	if star {
		into.wildcards = append(into.wildcards, wildcard{strings.TrimSuffix(name, "*"), next})
	}
}

// limit reads a rate_limit, or returns nil.
func (c *compiler) limit(n *yamltree.Node) *rule {
	before := len(c.errs)
	fields := c.mapping(n, "rate_limit", limitKeys)
	r := &rule{unlimited: c.bool(fields["unlimited"])}
	r.name, _ = c.text(fields["name"])
	word, given := c.text(fields["unit"])
	unit, known := parseUnit(word)
	switch {
	case r.unlimited && given:
		c.fail(fields["unit"], "what is unlimited has no unit", "leave it out")
	case r.unlimited || known:
	case !given:
		c.fail(n, "the rate_limit has no unit", "write unit: second")
	default:
		c.fail(fields["unit"], fmt.Sprintf("%q is not a unit", word),
			weir.Suggest(strings.ToLower(word), unitNames...))
	}
	r.Rule = Rule{Unit: unit, Limit: c.count(fields["requests_per_unit"])}
	for _, item := range c.list(fields["replaces"]) {
		name, _ := c.text(c.mapping(item, "replaces", replaceKeys)["name"])
		switch name {
		case "":
			c.fail(item, "the name of the rate_limit to replace is missing", "write - name: the name of a rate_limit")
		case r.name:
			c.fail(item, fmt.Sprintf("the rate_limit %q cannot replace itself", name), "")
		}
		r.replaces = append(r.replaces, name)
	}
	if len(c.errs) > before {
		return nil
	}
	r.told = &rls.RateLimitResponse_RateLimit{Name: r.name, RequestsPerUnit: r.Limit,
		Unit: rls.RateLimitResponse_RateLimit_Unit(r.Unit)}
	return r
}

// count reads a number of requests. The default is 0.
func (c *compiler) count(n *yamltree.Node) uint32 {
	s, given := c.text(n)
	if !given {
		return 0
	}
	// As YAML 1.1 writes numbers: 1_000, 0x10, 010.
	count, err := strconv.ParseUint(strings.TrimPrefix(strings.ReplaceAll(s, "_", ""), "+"), 0, 32)
	if err != nil {
		c.fail(n, fmt.Sprintf("%q is not a number of requests", s), "a whole number up to 4294967295")
	}
	return uint32(count)
}
