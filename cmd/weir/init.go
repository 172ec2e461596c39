package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir"
	"weir/config"
	"weir/internal/tabular"
)

const (
	// standardOutput as a file is standard output.
	standardOutput = "-"
	// noFolder is a folder that does not exist, which is no mistake.
	noFolder = "/nonexistent/weir"
)

// What weir init cannot do.
var (
	errNothingToAsk = errors.New("there is no terminal to ask on (write weir init --for api --upstream http://127.0.0.1:3000 " +
		"--limit 100/1m; --for is api, site, mail, postfix, nginx or envoy, and --listen, --data and --out have defaults)")
	errFileExists = errors.New("the file exists")
)

type initCommand struct {
	For         string `enum:",api,site,mail,postfix,nginx,envoy" default:"" placeholder:"KIND" help:"What the configuration is for: api, site, mail, postfix, nginx or envoy. Other choices that are not given have defaults. Default: ask, on a terminal."`
	Listen      string `placeholder:"ADDRESS" help:"Where weir listens, such as :8080."`
	Upstream    string `placeholder:"URL|ADDRESS" help:"Your service (api, site), your mail server (mail), or where Postfix takes messages back (postfix)."`
	Proxy       string `placeholder:"NETWORKS" help:"The proxies in front of weir, such as nginx or a CDN: 127.0.0.1 or 10.0.0.0/8, 192.0.2.7 (api, site). Default: none."`
	ProxyHeader string `placeholder:"NAME" help:"Which header they name the client in: x-forwarded-for or forwarded (api, site). Default: x-forwarded-for."`
	Limit       string `placeholder:"RATE" help:"The limit: of each API key, such as 100/1m (api, nginx, envoy); of each source network, such as 50/s (site); how fast waiting messages leave (mail, postfix)."`
	Header      string `placeholder:"NAME" help:"The header with the API key of a request (api, nginx, envoy). Default: X-Api-Key."`
	Concurrent  string `placeholder:"N" help:"How many requests the service can work on at once (site)."`
	Hostname    string `placeholder:"NAME" help:"The name of the mail server (mail, postfix). Needed there."`
	Admin       string `placeholder:"ADDRESS" help:"Who is told when a user is stopped (mail, postfix). Default: postmaster at the hostname."`
	Divert      string `placeholder:"ADDRESS" help:"Where weir takes messages that have to wait (postfix)."`
	Cert        string `placeholder:"FILE" help:"The certificate of the gate (mail). Needed to take passwords from other machines."`
	Key         string `placeholder:"FILE" help:"The key of the certificate (mail)."`
	Console     string `placeholder:"ADDRESS" help:"Where the console listens: an address of this machine alone."`
	Data        string `placeholder:"FOLDER" help:"Where weir keeps its data; a relative path starts from the folder of the configuration. Default: weir-data, or /var/lib/weir for a file in /etc."`
	Out         string `short:"o" placeholder:"FILE" help:"Where to write the configuration; - prints it. Default: weir.yaml here; for root /etc/weir/weir.yaml, if there is none."`
	Force       bool   `help:"Replace the file if it exists."`
	JSON        bool   `name:"json" help:"Print as JSON what was written and what to do next."`
}

// initReport is what --json prints.
type initReport struct {
	File     string    `json:"file"`
	For      string    `json:"for"`
	Warnings []mistake `json:"warnings"`
	Next     []string  `json:"next"`
}

// flags are the choices that were made on the command line.
func (c *initCommand) flags() map[string]string {
	given := map[string]string{"listen": c.Listen, "upstream": c.Upstream, "header": c.Header, "limit": c.Limit,
		"proxy": c.Proxy, "proxy-header": c.ProxyHeader,
		"concurrent": c.Concurrent, "hostname": c.Hostname, "admin": c.Admin, "divert": c.Divert, "cert": c.Cert, "key": c.Key, "console": c.Console,
		"data": c.Data, "out": c.Out}
	for flag, value := range given {
		if value == "" {
			delete(given, flag)
		}
	}
	return given
}

// AfterApply finds wrong usage that Validate cannot: it does not know the terminal.
func (c *initCommand) AfterApply(t *terminal) error {
	switch {
	case c.For == "" && !t.inTTY:
		return errNothingToAsk
	case c.JSON && c.Out == standardOutput:
		return errors.New("--json and --out - do not go together: both print")
	case c.For != "":
		s, err := starterOf(c.For)
		if err != nil {
			return err
		}
		return s.fits(c.flags())
	}
	return nil
}

// fits finds flags that this kind of configuration has no use for, and those that it lacks.
func (s *starter) fits(given map[string]string) error {
	var all []error
	for _, a := range s.asks {
		if a.usual == "" && !a.quiet && given[a.flag] == "" {
			all = append(all, fmt.Errorf("--%s is missing (write --%[1]s mail.example.org)", a.flag))
		}
		if a.needs != "" && given[a.flag] != "" && isNone(given[a.needs]) {
			all = append(all, fmt.Errorf("--%s has no meaning without --%s", a.flag, a.needs))
		}
	}
	return errors.Join(append(all, s.knows(given))...)
}

// knows finds flags that this kind of configuration has no use for.
func (s *starter) knows(given map[string]string) error {
	var all []error
	for _, flag := range slices.Sorted(maps.Keys(given)) {
		if flag != "out" && flag != "data" &&
			!slices.ContainsFunc(s.asks, func(a starterAsk) bool { return a.flag == flag }) {
			all = append(all, fmt.Errorf("--%s has no meaning with --for %s", flag, s.kind))
		}
	}
	return errors.Join(all...)
}

// Run asks, or takes the flags, and writes a file that weir check accepts.
func (c *initCommand) Run(t *terminal) error {
	var s starter
	var answers map[string]string
	var err error
	usual := usualFile(os.Geteuid() == 0, defaultConfig)
	if c.For == "" {
		s, answers, err = t.askStarter(c, usual)
	} else {
		s, answers, err = c.take(usual)
	}
	if err != nil {
		return err
	}
	// Everything was checked choice by choice. This is for what they make together.
	cfg, err := s.check(answers)
	if err != nil {
		return plainMistakes(err)
	}
	r, err := s.render(answers)
	if err != nil {
		return err
	}
	out := answers["out"]
	if out == standardOutput {
		_, err = fmt.Fprint(t.out, r.file)
		return err
	}
	if err := writeStarter(out, r.file, c.Force); err != nil {
		return err
	}
	return t.written(c.JSON, s, cfg, out, r)
}

// take checks the flags: all together, and if something is wrong one by one, so that every error names its flag.
func (c *initCommand) take(usual string) (starter, map[string]string, error) {
	s, err := starterOf(c.For)
	if err != nil {
		return s, nil, err
	}
	s.common(usual)
	given := c.flags()
	answers := s.fill(given)
	wrong := []error{fileFree(answers["out"], c.Force)}
	for _, value := range given {
		wrong = append(wrong, clean(value))
	}
	if err := errors.Join(wrong...); err == nil {
		if _, err = s.check(answers); err == nil {
			return s, answers, nil
		}
	}
	return s, answers, c.blame(&s, given, answers["out"])
}

// blame says which flags are wrong, each with the usual choices for those behind it. What is wrong only with all of
// them together is left to Run.
func (c *initCommand) blame(s *starter, given map[string]string, out string) error {
	var wrong []error
	if given["out"] == "" {
		if err := fileFree(out, c.Force); err != nil {
			wrong = append(wrong, fmt.Errorf("--out: %w", err))
		}
	}
	// A certificate is nothing without its key.
	taken := map[string]string{"cert": given["cert"], "key": given["key"]}
	for _, a := range s.asks {
		value, ok := given[a.flag]
		if !ok {
			continue
		}
		if err := s.try(taken, a.flag, value, c.Force); err != nil {
			wrong = append(wrong, fmt.Errorf("--%s: %w", a.flag, err))
			if a.flag == "cert" || a.flag == "key" {
				break // all others would be to blame for it, too
			}
		}
	}
	return errors.Join(wrong...)
}

// common adds what is asked for every kind: where the file goes, and where the data.
func (s *starter) common(file string) {
	s.asks = append(s.asks, starterAsk{flag: "out", question: "Where should the configuration go?", usual: file},
		starterAsk{flag: "data", question: "Where should weir keep its data?", usual: dataOfFile})
}

// try takes a choice if the file would be a good one with it, and with the usual choices for what is not known yet.
func (s *starter) try(taken map[string]string, flag, value string, force bool) error {
	if err := clean(value); err != nil {
		return err
	}
	if flag == "out" {
		if err := fileFree(value, force); err != nil {
			return err
		}
	}
	answers := maps.Clone(taken)
	answers[flag] = value
	if flag != "data" {
		answers["data"] = noFolder // no other choice is to blame for the folder
	}
	if _, err := s.check(s.fill(answers)); err != nil {
		return plainMistakes(err)
	}
	taken[flag] = value
	return nil
}

// plainMistakes leaves out the lines of a file that nobody has seen.
func plainMistakes(err error) error {
	mistakes, ok := errors.AsType[config.Errors](err)
	if !ok {
		return err
	}
	var all []error
	for _, m := range mistakes {
		all = append(all, &weir.FieldError{Msg: m.Msg, Hint: m.Hint})
	}
	return errors.Join(all...)
}

// fill returns the usual answers, and those that were given instead.
func (s *starter) fill(given map[string]string) map[string]string {
	answers := map[string]string{}
	for _, a := range s.asks {
		answers[a.flag] = a.usual
	}
	maps.Copy(answers, given)
	if answers["hostname"] == "" && slices.ContainsFunc(s.asks, func(a starterAsk) bool { return a.flag == "hostname" }) {
		answers["hostname"] = "mail.example.org" // until it is known
	}
	if admin, ok := answers["admin"]; ok && given["admin"] == "" {
		answers["admin"] = strings.Replace(admin, atHostname, "@"+answers["hostname"], 1)
	}
	if given["data"] == "" {
		answers["data"] = usualData(answers["out"])
	}
	return answers
}

// usualFile is where the configuration goes if nobody says otherwise.
func usualFile(root bool, installed string) string {
	if _, err := os.Lstat(installed); root && errors.Is(err, fs.ErrNotExist) {
		return installed
	}
	return "weir.yaml"
}

// usualData is where the data of a configuration goes if nobody says otherwise.
func usualData(file string) string {
	switch {
	case file == filepath.Join(filepath.Dir(defaultConfig), "mail.yaml"):
		return config.DefaultData + "-mail" // what the package's service for mail may write to
	case strings.HasPrefix(file, "/etc/"):
		return config.DefaultData
	}
	return "./weir-data"
}

// fileFree checks that a file may be written.
func fileFree(file string, force bool) error {
	if file == standardOutput {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(file)); file != defaultConfig && (err != nil || !info.IsDir()) {
		return fmt.Errorf("there is no folder %s", filepath.Dir(file))
	}
	info, err := os.Lstat(file)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder (write %s)", file, filepath.Join(file, "weir.yaml"))
	case err == nil && !force:
		return fmt.Errorf("%w: %s (choose another name, or replace it with --force)", errFileExists, file)
	}
	return nil
}

// writeStarter writes the file completely or not at all. It has no secrets, so that everybody may read it.
func writeStarter(file, text string, force bool) error {
	if file == defaultConfig {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
	}
	if force {
		return replaceFile(file, []byte(text))
	}
	err := createFile(file, []byte(text))
	if errors.Is(err, fs.ErrExist) {
		return fileFree(file, false)
	}
	return err
}

// written says what was written, and what to do next.
func (t *terminal) written(asJSON bool, s starter, cfg *config.Config, out string, r rendered) error {
	serve := "weir serve -c " + shellWord(out)
	if asJSON {
		return t.json(initReport{File: out, For: s.kind, Warnings: append([]mistake{}, mistakesOf(cfg.Warnings)...),
			Next: []string{serve, r.try}})
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(t.err, "warning: %s", w.Explain())
	}
	if len(cfg.HTTP) > 0 && len(cfg.HTTP[0].TrustedProxies) > 0 {
		r.says = "The lines for your proxy stand in the file, above trusted_proxies.\n\n" + r.says
	}
	_, err := fmt.Fprintf(t.out, "%s: %s, %s. Start weir:\n\n    %s\n\n%s\n\n    %s\n", printable(out),
		t.paint(tabular.Good, "written and checked"), s.title, serve, r.says,
		strings.ReplaceAll(r.try, "\n", "\n    "))
	return err
}

// maxTries is how often a question is asked.
const maxTries = 10

// What ends the questions.
var (
	errNoAnswer = errors.New("the input ended before all questions were answered; nothing was written")
	errTries    = fmt.Errorf("%d answers to one question were wrong; nothing was written", maxTries)
)

// askStarter asks for everything that the flags do not say.
func (t *terminal) askStarter(c *initCommand, usual string) (s starter, answers map[string]string, err error) {
	in := bufio.NewReaderSize(t.in, maxAnswer+2) // an answer and the end of its line
	fmt.Fprintln(t.err, "What is weir for?")
	for i, s := range starters() {
		fmt.Fprintf(t.err, "  %d  %-8s %s\n", i+1, s.kind, s.title)
	}
	given := c.flags()
	if err := t.question(in, "Which one, by name or number?", "api", func(kind string) (err error) {
		s, err = starterOf(kind)
		return err
	}); err != nil {
		return s, nil, err
	}
	if err := s.knows(given); err != nil {
		return s, nil, err
	}
	s.common(usual)
	taken := map[string]string{"cert": given["cert"], "key": given["key"]}
	for _, a := range s.asks {
		take := func(value string) error { return s.try(taken, a.flag, value, c.Force) }
		if value, ok := given[a.flag]; ok {
			if err := take(value); err != nil {
				return s, nil, fmt.Errorf("--%s: %w", a.flag, err)
			}
			continue
		}
		if a.quiet || a.needs != "" && isNone(s.fill(taken)[a.needs]) {
			continue
		}
		usual := a.usual
		if usual != "" {
			usual = s.fill(taken)[a.flag]
		}
		if err := t.question(in, a.question, usual, take); err != nil {
			return s, nil, err
		}
	}
	return s, s.fill(taken), nil
}

// question asks until an answer is taken. An empty one is the usual one.
func (t *terminal) question(in *bufio.Reader, question, usual string, take func(string) error) error {
	for range maxTries {
		fmt.Fprint(t.err, question)
		if usual != "" {
			fmt.Fprintf(t.err, " [%s]", printable(usual))
		}
		fmt.Fprint(t.err, " ")
		answer, err := readAnswer(in)
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(t.err)
			return errNoAnswer
		case err != nil && !errors.Is(err, errLongAnswer):
			return err
		case err != nil:
		case answer == "" && usual == "":
			err = errors.New("this needs an answer")
		case answer == "":
			err = take(usual)
		default:
			err = take(answer)
		}
		if err == nil {
			return nil
		}
		fmt.Fprintf(t.err, "  %s\n", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n  "))
	}
	return errTries
}

// readAnswer reads a line. Of a line that is too long, the rest is skipped.
func readAnswer(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	long := false
	for errors.Is(err, bufio.ErrBufferFull) {
		long = true
		line, err = in.ReadSlice('\n')
	}
	answer := strings.TrimSpace(string(line))
	switch {
	case (long || len(answer) > maxAnswer) && (err == nil || errors.Is(err, io.EOF)):
		return "", errLongAnswer
	case errors.Is(err, io.EOF) && answer != "":
		return answer, nil // the last line has no end
	}
	return answer, err
}
