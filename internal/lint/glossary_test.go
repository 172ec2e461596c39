package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/testkit/markdown"
)

// Where a word is looked for.
type where uint8

const (
	names where = 1 << iota // that the code declares, word by word: newBanList is "new ban list"
	types                   // names of types and of files, whole
	comments
	texts   // what weir says, see TestPlainTexts
	inPages // README and docs
	code    = names | comments | texts
	all     = code | inPages
)

// A wrong is a word that docs/glossary.md does not use for a thing, and where it must not stand.
type wrong struct {
	word   string // as in the last column
	in     where
	only   string // folders, in which the word is looked for; everywhere if empty
	except string // folders, or files, in which the word means something else
	right  string // a regular expression of longer phrases in which the word is right
}

// wrongs has a row for each word in the last column of the glossary.
var wrongs = []wrong{
	{word: "reject", in: names, only: "weir policy gate/httpgate"},
	{word: "deny", in: names, only: "weir policy gate/httpgate"},
	{word: "ban list", in: all, right: `weir ban lists?|"ban lists?"|ban lists?$|ban lists? command`},
	{word: "deny list", in: all},
	{word: "endpoint", in: code, except: "traces internal/checks"}, // OpenTelemetry's word
	{word: "RPC", in: code},
	{word: "pipeline", in: code, right: "clients pipeline"},
	{word: "false positive", in: all},
	{word: "dashboard", in: code}, // pages tell of Grafana's
	{word: "state directory", in: all},
	{word: "entrance", in: all},
	{word: "database", in: code, only: "throttle/quota"},
	{word: "guest", in: all},
	{word: "cluster", in: code, except: "farm throttle/quota/survey.go internal/checks"}, // Redis', NATS', Envoy's
	{word: "instance", in: names | texts, except: "gate/postfixgate internal/testkit", right: "for instance"},
	{word: "peer", in: names | comments, only: "admission throttle/ban throttle/stamp store notify"},
	{word: "member", in: names, except: "farm app config internal/testkit console throttle/quota upstream"},
	{word: "colleague", in: names, except: "throttle/quota"},
	{word: "neighbour", in: names, except: "throttle/bloom cmd/weir"}, // networks beside each other
	{word: "company", in: names},
	{word: "branch", in: names},
	{word: "placement", in: all},
	{word: "frame", in: types},
	{word: "edge", in: names, except: "console/users.go throttle/bloom/limiter.go lab"}, // of a plot, of a unit of time
	{word: "front", in: types},
	{word: "reservation", in: code},
	{word: "office", in: names},
	{word: "desk", in: names, except: "mail/spool"},
	{word: "log-in", in: texts | inPages, except: "store/sqlite/schema.go"},
	{word: "sign-in", in: all},
	{word: "mails", in: texts | inPages, except: "lab"},
	{word: "letter", in: types, except: "lab farm/nats"},
	{word: "admin user", in: all},
	{word: "rejection", in: all},
	{word: "permission", in: code, except: "farm/redis"}, // Redis' word
	{word: "scope", in: names},
	{word: "book", in: names},
	{word: "dry run", in: comments | inPages},
	{word: "dump", in: all},
	{word: "room", in: types, except: "admission gate/httpgate/pages"},
	{word: "till", in: names},
	{word: "proof", in: names, only: "throttle/stamp"},
	{word: "token", in: names, only: "throttle/stamp"},
	{word: "blocked", in: code, except: "mail gate/smtpgate throttle/quota throttle/reach"},
	{word: "unit of work", in: all},
	{word: "backend", in: names, except: "app console cmd/weir"}, // the running weir, as the console knows it
	{word: "customer", in: names},
	{word: "buffer", in: names, only: "admission"},
	{word: "oddity", in: all},
	{word: "place", in: types, except: "weir admission"},
	{word: "doorway", in: types},
	{word: "hall", in: types},
	{word: "usher", in: types},
}

// pattern finds a word in lower case, and its plural.
func (w *wrong) pattern() *regexp.Regexp {
	stem := regexp.QuoteMeta(strings.ToLower(w.word))
	if one, is := strings.CutSuffix(stem, "y"); is {
		stem = one + "(?:y|ie)"
	}
	return regexp.MustCompile(`\b` + stem + `s?\b`)
}

// within reports whether a file is in one of some folders, which are separated by spaces.
func within(name, folders string) bool {
	return slices.ContainsFunc(strings.Fields(folders), func(f string) bool {
		return name == f || strings.HasPrefix(name, f+"/") || f == "weir" && !strings.Contains(name, "/")
	})
}

// TestGlossary: what the glossary calls by one word is not called by another one.
func TestGlossary(t *testing.T) {
	t.Parallel()
	patterns, right := make([]*regexp.Regexp, len(wrongs)), make([]*regexp.Regexp, len(wrongs))
	for i := range wrongs {
		patterns[i] = wrongs[i].pattern()
		if wrongs[i].right != "" {
			right[i] = regexp.MustCompile(wrongs[i].right)
		}
	}
	look := func(in where, file string, line int, text string) {
		lower := strings.ToLower(text)
		for i, w := range wrongs {
			if w.in&in == 0 || w.only != "" && !within(file, w.only) || within(file, w.except) {
				continue
			}
			said := lower
			if right[i] != nil {
				said = right[i].ReplaceAllString(said, "")
			}
			if found := patterns[i].FindString(said); found != "" && (in != types || found == said) {
				t.Errorf("%s:%d: %q is not used for that, see docs/glossary.md: %.80s", file, line, found, text)
			}
		}
	}
	eachFile(t, func(f file) {
		if !strings.HasSuffix(f.name, "_test.go") && f.folder() != "internal/lint" {
			lookInSource(t, f, look)
		}
	})
	for _, p := range pages(t) {
		for _, l := range p.Prose {
			if spoken(p.Path) && !strings.HasPrefix(l.Text, "    ") {
				look(inPages, p.Path, l.Number,
					markdown.LinkMarkup.ReplaceAllString(markdown.InlineCode.ReplaceAllString(l.Text, "code"), "$1"))
			}
		}
	}
	eachPlainFile(t, func(name string, lines []string) {
		if path.Ext(name) != ".html" && (path.Ext(name) != ".yaml" || within(name, "deploy")) {
			return // Prometheus', Grafana's, Kubernetes' and Envoy's words
		}
		for i, l := range lines {
			look(texts, name, i+1, action.ReplaceAllString(l, " "))
		}
	})
}

// lookInSource looks at the names, comments and texts of a Go file.
func lookInSource(t *testing.T, f file, look func(in where, file string, line int, text string)) {
	look(types, f.name, 1, strings.TrimSuffix(path.Base(f.name), ".go"))
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, f.name, f.src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	line := func(n ast.Node) int { return fset.Position(n.Pos()).Line }
	for _, group := range parsed.Comments {
		look(comments, f.name, line(group), strings.Join(strings.Fields(group.Text()), " "))
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		var declared []*ast.Ident
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.FuncDecl:
			declared = []*ast.Ident{n.Name}
		case *ast.TypeSpec:
			declared = []*ast.Ident{n.Name}
			look(types, f.name, line(n), n.Name.Name)
		case *ast.Field:
			declared = n.Names
		case *ast.ValueSpec:
			declared = n.Names
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && strings.Contains(text, " ") {
				look(texts, f.name, line(n), text)
			}
		}
		for _, name := range declared {
			look(names, f.name, line(name), wordsOf(name.Name))
		}
		return true
	})
}

// Where the words of a name meet: newTLSSetup is "new TLS Setup".
var (
	wordEnds    = regexp.MustCompile(`([a-z\d])([A-Z])`)
	acronymEnds = regexp.MustCompile(`([A-Z]+)([A-Z][a-z])`)
)

func wordsOf(name string) string {
	return acronymEnds.ReplaceAllString(wordEnds.ReplaceAllString(name, "$1 $2"), "$1 $2")
}

// TestGlossaryRows: each word that the glossary does not use is looked for, and nothing else is.
func TestGlossaryRows(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(root + "/docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for row := range strings.Lines(string(raw)) {
		cells := strings.Split(row, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[3]) == "not" {
			continue
		}
		for word := range strings.SplitSeq(cells[3], ",") {
			if word = strings.TrimSpace(word); word != "" {
				listed[word] = true
			}
		}
	}
	for _, w := range wrongs {
		if !listed[w.word] {
			t.Errorf("%q is looked for, and the glossary does not have it in its last column", w.word)
		}
		delete(listed, w.word)
	}
	for word := range listed {
		t.Errorf("the glossary says that %q is not used, and nothing looks for it: add it to wrongs", word)
	}
}
