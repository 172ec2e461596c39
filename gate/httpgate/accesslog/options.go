package accesslog

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"weir"
)

// Requests says which requests get a line.
type Requests string

// Which requests may get a line.
const (
	All     Requests = "all"
	Refused Requests = "refused" // only what was refused, delayed or failed
	Off     Requests = "off"
)

// Floods says what becomes of the lines of a flood.
type Floods string

// What may become of them.
const (
	FloodsAll   Floods = "all"   // every request has its line
	FloodsFirst Floods = "first" // the first of each second, and how many more there were
)

// Formats that have a name. A format with a brace in it is a template.
const (
	FormatLog      = "log"
	FormatJSON     = "json"
	FormatCombined = "combined"
)

// Destinations that are not files.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Options configure the access log. The short form is requests alone.
type Options struct {
	// Which requests get a line: all (the default), refused (only what was refused, delayed or failed) or off.
	Requests Requests `yaml:"requests"`
	// What a line looks like: log (as a line of the log), json, combined (as nginx and Apache write it), or a template
	// such as "{source} {method} {path} {status} {took}". Default: log, and json where to is given.
	Format string `yaml:"format"`
	// Where lines go that are not part of the log: the path of a file, stdout or stderr. A file is made with mode 0640
	// if it is not there, and opened again on a reload and when it was moved away. Default: stderr.
	To string `yaml:"to"`
	// What becomes of the lines of a flood: first (in each second the first 10 of every rule that turns requests away,
	// and the first 1000 that pass; the log says how many more there were) or all. Default: first with format log,
	// otherwise all.
	Floods Floods `yaml:"floods"`
}

// Short names the key that may be written instead of the whole.
func (o Options) Short() string { return "requests" }

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	if o.Requests == "" {
		o.Requests = All
	}
	switch {
	case o.Format == "" && o.To == "":
		o.Format = FormatLog
	case o.Format == "":
		o.Format = FormatJSON
	case o.To == "" && o.Format != FormatLog:
		o.To = Stderr
	}
	if o.Floods == "" {
		o.Floods = FloodsAll
		if o.Format == FormatLog {
			o.Floods = FloodsFirst
		}
	}
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var m weir.Mistakes
	m.OneOf("requests", string(o.Requests), string(All), string(Refused), string(Off))
	m.OneOf("floods", string(o.Floods), string(FloodsAll), string(FloodsFirst))
	switch {
	case strings.ContainsAny(o.Format, "{}"):
		_, err := ParseTemplate(o.Format)
		m.Under("format", err)
	case o.Format == "" || slices.Contains([]string{FormatLog, FormatJSON, FormatCombined}, o.Format):
	default:
		hint := weir.Nearest(o.Format, FormatLog, FormatJSON, FormatCombined)
		if hint != "" {
			hint = fmt.Sprintf("did you mean %q?", hint)
		} else {
			hint = `log, json, combined, or a template such as "{source} {method} {path} {status} {took}"`
		}
		m.Add("format", fmt.Sprintf("unknown format %.64q", o.Format), hint)
	}
	switch {
	case o.To == "" || o.To == Stdout || o.To == Stderr:
	case !filepath.IsAbs(o.To) || strings.ContainsRune(o.To, 0):
		m.Add("to", fmt.Sprintf("%.64q is not a place for lines", o.To), "write stdout, stderr or a whole path, as in "+
			"/var/log/weir/access.log")
	}
	if o.Format == FormatLog && o.To != "" {
		m.Add("to", "lines of the log go where the log goes", "leave it out, or choose another format: json, combined or "+
			"a template")
	}
	return m.Err()
}

// A Log is an access log that is ready for use. The zero value has a line in the gate's own log for every request,
// except in a flood.
type Log struct {
	Requests Requests // empty for All
	Format   *Format  // nil for lines of the gate's own log
	To       io.Writer
	Every    bool // in a flood, too
}

// Ready returns the log of valid options. to is where lines go that are not part of the log.
func (o Options) Ready(to io.Writer) Log {
	o = o.WithDefaults()
	l := Log{Requests: o.Requests, Every: o.Floods == FloodsAll}
	switch o.Format {
	case FormatLog:
		return l
	case FormatJSON:
		l.Format = JSON
	case FormatCombined:
		l.Format = Combined
	default:
		l.Format, _ = ParseTemplate(o.Format)
	}
	l.To = to
	return l
}
