package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"weir/config"
	"weir/internal/testkit/needs"
)

// answered runs weir init as on a terminal where somebody types.
func answered(typed string, args ...string) (code int, out, asked string) {
	var o, e bytes.Buffer
	code = run(append([]string{"init"}, args...),
		&terminal{in: strings.NewReader(typed), inTTY: true, out: &o, err: &e})
	return code, o.String(), e.String()
}

// usualAnswers are those of somebody who only says what weir cannot guess.
func usualAnswers(s starter) map[string]string {
	s.common("weir.yaml")
	return s.fill(map[string]string{"hostname": "mail.example.org"})
}

// Every kind makes, with the usual answers, a short file without a warning whose console is on the loopback.
func TestInitFiles(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for _, s := range starters() {
		r, err := s.render(usualAnswers(s))
		if err != nil {
			t.Fatalf("%s: %v", s.kind, err)
		}
		cfg, err := s.check(usualAnswers(s))
		if err != nil {
			t.Errorf("%s: %v\n%s", s.kind, err, r.file)
			continue
		}
		if parsed, err := config.Parse("weir.yaml", []byte(r.file)); err != nil || len(parsed.Warnings) > 0 {
			t.Errorf("%s: %v, %v", s.kind, err, parsed.Warnings)
		}
		if local, err := loopbackListen(cfg.Console.Listen); !local || err != nil {
			t.Errorf("%s: the console is at %s", s.kind, cfg.Console.Listen)
		}
		if n := strings.Count(r.file, "\n"); n > 80 || !strings.HasSuffix(r.file, "\n") || strings.Contains(r.file, "<no value>") {
			t.Errorf("%s: %d lines\n%s", s.kind, n, r.file)
		}
		for _, want := range []string{"weir serve -c weir.yaml", "curl ", r.says} {
			if !strings.Contains(r.file, want) {
				t.Errorf("%s: the file does not say %q", s.kind, want)
			}
		}
	}
}

// The limit on logins that a site has as a comment works once its number signs are gone.
func TestInitLogins(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	site, err := starterOf("site")
	if err != nil {
		t.Fatal(err)
	}
	r, err := site.render(usualAnswers(site))
	if err != nil {
		t.Fatal(err)
	}
	before, logins, _ := strings.Cut(r.file, "  # throttles: [networks, logins, stamps]\n")
	logins, after, found := strings.Cut(logins, "  # From this load on")
	if !found {
		t.Fatalf("no limit on logins:\n%s", r.file)
	}
	before = strings.Replace(before, "[networks, stamps]", "[networks, logins, stamps]", 1)
	text := before + strings.ReplaceAll(logins, "  # ", "  ") + after[strings.Index(after, "\n"):]
	cfg, err := config.Parse("weir.yaml", []byte(text))
	if err != nil || len(cfg.Warnings) > 0 || cfg.Throttles["logins"].Quota == nil {
		t.Errorf("%v, %v", err, cfg)
	}
}

// Somebody who takes what is offered, or types a number, gets a file that weir check accepts; questions have defaults.
func TestInitAsks(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for i, s := range starters() {
		file := filepath.Join(t.TempDir(), "weir.yaml")
		typed := fmt.Sprintf("%d\n", i+1)
		for _, a := range s.asks {
			switch {
			case a.quiet || a.needs != "":
			case a.flag == "hostname":
				typed += "\n  mail.example.com \n" // without an answer it is asked again
			default:
				typed += "\n"
			}
		}
		code, out, asked := answered(typed + file + "\n\n")
		if code != exitOK || !strings.Contains(out, "weir serve -c "+file) || !strings.Contains(out, "curl") {
			t.Fatalf("%s: %d\n%s%s", s.kind, code, asked, out)
		}
		cfg, err := load(file)
		if err != nil {
			t.Fatalf("%s: %v", s.kind, err)
		}
		if cfg.Data != filepath.Join(filepath.Dir(file), "weir-data") {
			t.Errorf("%s: data in %s", s.kind, cfg.Data)
		}
		if len(cfg.SMTP) > 0 && (cfg.SMTP[0].Hostname != "mail.example.com" ||
			cfg.SMTP[0].Admin != "postmaster@mail.example.com" || !strings.Contains(asked, "this needs an answer")) {
			t.Errorf("%s: %+v\n%s", s.kind, cfg.SMTP[0], asked)
		}
		for _, a := range s.asks {
			if !a.quiet && a.needs == "" && !strings.Contains(asked, a.question) {
				t.Errorf("%s: %q is not asked", s.kind, a.question)
			}
		}
		if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", s.kind, info.Mode(), err)
		}
		if left, _ := filepath.Glob(file + ".*"); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// A bad answer gets an error with a hint, and the question is asked again; flags are not asked for.
func TestInitAsksAgain(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	folder := t.TempDir()
	taken, file := filepath.Join(folder, "taken.yaml"), filepath.Join(folder, "weir.yaml")
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	typed := strings.Join([]string{"ngnix", "9", "", // an API
		"8080", "127.0.0.1:9000", ":8081",
		"ftp://files.example", "http://a.example\x1b[2J", "http://127.0.0.1:3001",
		"nginx", "10.0.0.1/33", "127.0.0.1, 10.0.0.0/8 ::1", "X-Real-IP", "Forwarded",
		"X Key", "X-Customer",
		"lots", "5", "0/s", "5/fortnight", "1000000001/s", "7/s",
		taken, filepath.Join(folder, "none", "weir.yaml"), folder, file, ""}, "\n")
	code, out, asked := answered(typed, "--data", filepath.Join(folder, "data"))
	if code != exitOK {
		t.Fatalf("%d\n%s%s", code, asked, out)
	}
	for _, want := range []string{
		`"ngnix" is not one of them \(did you mean "nginx"\?\)`, `"9" is not one of them \(one of api, site`,
		`"8080" is not an address`, `the console listens on 127.0.0.1:9000 already`,
		`"ftp://files.example" is not an upstream`, `no control characters`, `"header:X Key" names no header \(write header:X-Api-Key\)`,
		`"nginx" is not a network`, `"10.0.0.1/33" is not a network`, `unknown forwarded_header "x-real-ip" \(one of x-forwarded-for`,
		`"lots" does not say per what \(write 5/s`, `"5" does not say per what`, `lets nobody through`,
		`"5/fortnight" is not a limit`, regexp.QuoteMeta(errLargeLimit.Error()),
		`the file exists: .*taken.yaml \(choose another name, or replace it with --force\)`, `there is no folder .*none`,
		`is a folder \(write `,
	} {
		if !regexp.MustCompile(want).MatchString(asked) {
			t.Errorf("nobody says %s", want)
		}
	}
	if t.Failed() {
		t.Log(asked)
	}
	if strings.Contains(asked, "keep its data") {
		t.Error("the flag is asked for")
	}
	cfg, err := load(file)
	if err != nil || cfg.HTTP[0].Listen != ":8081" || cfg.HTTP[0].Account[0] != "header:X-Customer" || cfg.Data != filepath.Join(folder, "data") ||
		fmt.Sprint(cfg.HTTP[0].TrustedProxies) != "[127.0.0.1/32 10.0.0.0/8 ::1/128]" || cfg.HTTP[0].ForwardedHeader != "forwarded" ||
		fmt.Sprint(cfg.Throttles["keys"].Quota.Policies[0].Limit) != "7" {
		t.Errorf("%+v, %v", cfg, err)
	}
	if text, err := os.ReadFile(taken); string(text) != "mine" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// Input that ends is an error, wherever it ends, and so are wrong answers without end.
func TestInitEnds(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	for _, typed := range []string{"", "api", "api\n", "api\n:8080\nhttp://127.0.0.1:3000\n", "site\n\n\n\n\n\n" + file} {
		code, out, asked := answered(typed)
		if code != exitFailed || out != "" || !strings.Contains(asked, errNoAnswer.Error()) {
			t.Errorf("%q: %d\n%s%s", typed, code, asked, out)
		}
	}
	wrong := strings.Repeat("wrong\n", maxTries)
	code, _, asked := answered(wrong[:len(wrong)-len("wrong\n")]+"api\n\n\n\n\n\n"+file+"\n\n", "--json")
	if code != exitOK {
		t.Errorf("the last try is right: %d\n%s", code, asked)
	}
	if code, _, asked := answered(wrong + "api\n"); code != exitFailed || !strings.Contains(asked, errTries.Error()) {
		t.Errorf("%d\n%s", code, asked)
	}
}

func TestInitBounds(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	most := strings.Repeat("x", maxAnswer)
	for _, end := range []string{"\n", "\r\n"} {
		in := bufio.NewReaderSize(strings.NewReader(most+end+most+"x"+end+most+most+most+end+"next"+end), maxAnswer+2)
		for i, want := range []error{nil, errLongAnswer, errLongAnswer, nil, io.EOF} {
			got, err := readAnswer(in)
			if !errors.Is(err, want) || i == 0 && got != most || i == 3 && got != "next" {
				t.Errorf("%q, line %d: %.20q…, %v, want %v", end, i+1, got, err, want)
			}
		}
	}
	if clean(most) != nil || clean(most+"x") != errLongAnswer {
		t.Error("the bound of an answer is another")
	}
	for _, s := range starters() {
		if n, _, _, err := s.limit(fmt.Sprintf("%d/1m", maxInitLimit)); n != maxInitLimit || err != nil {
			t.Errorf("%s: %d, %v", s.kind, n, err)
		}
		if _, _, _, err := s.limit(fmt.Sprintf("%d/1m", maxInitLimit+1)); err != errLargeLimit {
			t.Errorf("%s: %v", s.kind, err)
		}
	}
	if code, _, told := answered("", "--for", "api", "--listen", most+"x"); code != exitFailed ||
		!strings.Contains(told, "--listen: "+errLongAnswer.Error()) {
		t.Errorf("%d %s", code, told)
	}
}

// What stands in the file is what was typed, whatever YAML and shells make of such characters.
func TestInitQuotes(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s, err := starterOf("api")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"data", dataOfFile, "./data", "/var/lib/weir", "a: b", "a #b", "it's", `say "x" \n`, "1.5", "true", "null",
		"- a", "{a}", "[a]", "*a", "&a", "!a", "%a", "@a", "`a`", "ä/ö", "a:", "~", "| a", "> a"} {
		answers := usualAnswers(s)
		answers["data"], answers["out"] = text, strings.ReplaceAll(text, "/", "_")+".yaml"
		cfg, err := s.check(answers)
		if err != nil || cfg.Data != text {
			t.Errorf("%q is %q, %v", text, cfg.Data, err)
		}
	}
	for text, want := range map[string]string{"weir.yaml": "weir.yaml", "it's": `'it'\''s'`, "a b": "'a b'", "$x": "'$x'",
		"-f": "'-f'", "./weir-data": "./weir-data"} {
		if got := shellWord(text); got != want {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestInitUsual(t *testing.T) {
	t.Parallel()
	installed := filepath.Join(t.TempDir(), "weir.yaml")
	if got := usualFile(true, installed); got != installed {
		t.Error("root, nothing installed:", got)
	}
	if got := usualFile(false, installed); got != "weir.yaml" {
		t.Error("not root:", got)
	}
	if err := os.WriteFile(installed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := usualFile(true, installed); got != "weir.yaml" {
		t.Error("root, something installed:", got)
	}
	for file, want := range map[string]string{defaultConfig: "/var/lib/weir", "/etc/weir/mail.yaml": "/var/lib/weir-mail",
		"weir.yaml": "./weir-data", standardOutput: "./weir-data"} {
		if got := usualData(file); got != want {
			t.Errorf("%s: %s", file, got)
		}
	}
	for listen, want := range map[string]string{":80": "127.0.0.1:80", "0.0.0.0:80": "127.0.0.1:80", "[::]:80": "[::1]:80",
		"10.0.0.1:80": "10.0.0.1:80", "unix:/run/x": "unix:/run/x"} {
		if got := reachable(listen); got != want {
			t.Errorf("%s: %s", listen, got)
		}
	}
}

// A file that is there stays as it is, also if it is a link that leads nowhere. With --force it is replaced, and keeps
// its mode.
func TestInitWrites(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, link := filepath.Join(folder, "weir.yaml"), filepath.Join(folder, "link.yaml")
	if err := os.Symlink(filepath.Join(folder, "nowhere"), link); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writeStarter(file, "first", false), os.Chmod(file, 0o640)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, link} {
		if err := fileFree(name, false); !errors.Is(err, errFileExists) {
			t.Errorf("%s: %v", name, err)
		}
		if err := writeStarter(name, "second", false); !errors.Is(err, errFileExists) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := fileFree(file, true); err != nil {
		t.Error(err)
	}
	if err := writeStarter(file, "third", true); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(file)
	info, _ := os.Stat(file)
	if string(text) != "third" || err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("%q, %v, %v", text, info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*.part")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := writeStarter(filepath.Join(folder, "none", "weir.yaml"), "x", false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is no such folder: %v", err)
	}
}
