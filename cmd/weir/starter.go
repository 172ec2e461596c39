package main

import (
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"weir"
	"weir/config"
	"weir/console"
	"weir/identify"
)

// Bounds on what weir init is told.
const (
	maxAnswer    = 1024 // bytes of one answer
	maxInitLimit = 1_000_000_000
)

// What weir init does not take.
var (
	errLongAnswer = fmt.Errorf("an answer has at most %d bytes", maxAnswer)
	errLargeLimit = fmt.Errorf("a limit is at most %d", maxInitLimit)
)

// starterFiles are the templates. common.tmpl has what they share; each of the others is a kind of configuration.
//
//go:embed starters/*.tmpl
var starterFiles embed.FS

// A starter is a kind of configuration that weir init writes.
type starter struct {
	kind, title string
	asks        []starterAsk
}

// A starterAsk is a choice: a flag, and a question on a terminal.
type starterAsk struct {
	flag, question string
	usual          string // what an empty answer means; "" where there has to be one
	quiet          bool   // a flag only, which may be left out
	needs          string // the flag without which it has no meaning
}

// noProxy is the answer that no proxy is in front.
const noProxy = "none"

func isNone(answer string) bool { return answer == "" || answer == noProxy || answer == "no" }

// What usual answers say of other answers.
const (
	atHostname = "@HOSTNAME" // of the mail server
	dataOfFile = "DATA"      // beside the file
)

// starters are all kinds, in the order in which they are offered.
func starters() []starter {
	const (
		where   = "Where should weir listen (:8080 is port 8080 of every address)?"
		asked   = "Where should weir listen, for questions?"
		service = "Where is your service?"
		perKey  = "How many requests may each API key send (5/s, 100/1m, 10000/month)?"
		console = console.DefaultListen
		// Where the package has the console of its service for mail.
		mailConsole = "127.0.0.1:9010"
	)
	key := starterAsk{flag: "header", question: "Which header has the API key of a request?", usual: "X-Api-Key"}
	name := starterAsk{flag: "hostname", question: "What is the name of your mail server (such as mail.example.org)?"}
	admin := starterAsk{flag: "admin", question: "Who is told when a user is stopped?", usual: "postmaster" + atHostname}
	proxy := starterAsk{flag: "proxy", question: "Which proxies are in front of weir, such as nginx or a CDN " +
		"(their addresses: 127.0.0.1, 10.0.0.0/8)?", usual: noProxy}
	named := starterAsk{flag: "proxy-header", question: "Which header do they name the client in (x-forwarded-for, " +
		"forwarded)?", usual: string(identify.XForwardedFor), needs: "proxy"}
	pace := starterAsk{flag: "limit", question: "How fast may waiting messages to new people leave, for each user?",
		usual: "1/m"}
	quiet := func(flag, usual string) starterAsk { return starterAsk{flag: flag, usual: usual, quiet: true} }
	return []starter{
		{"api", "an API with a limit for each key", []starterAsk{
			quiet("console", console),
			{flag: "listen", question: where, usual: "127.0.0.1:8080"},
			{flag: "upstream", question: service, usual: "http://127.0.0.1:3000"},
			proxy, named,
			key,
			{flag: "limit", question: perKey, usual: "100/1m"},
		}},
		{"site", "a site under floods", []starterAsk{
			quiet("console", console),
			{flag: "listen", question: where, usual: "127.0.0.1:8080"},
			{flag: "upstream", question: service, usual: "http://127.0.0.1:3000"},
			proxy, named,
			{flag: "limit", question: "How many requests may each source network send?", usual: "50/s"},
			{flag: "concurrent", question: "How many requests can the service work on at once (its workers, such as " +
				"pm.max_children of PHP-FPM)?", usual: "16"},
		}},
		{"mail", "a mail gate in front of a mail server", []starterAsk{
			quiet("console", mailConsole), quiet("cert", ""), quiet("key", ""), name,
			{flag: "listen", question: "Where should weir take mail?", usual: "127.0.0.1:2525"},
			{flag: "upstream", question: "Where is your mail server?", usual: "127.0.0.1:25"},
			pace, admin,
		}},
		{"postfix", "beside Postfix, which asks weir", []starterAsk{
			quiet("console", mailConsole), name,
			{flag: "listen", question: asked, usual: "127.0.0.1:10040"},
			{flag: "divert", question: "Where should weir take the messages that have to wait?", usual: "127.0.0.1:2526"},
			{flag: "upstream", question: "Where does Postfix take them back?", usual: "127.0.0.1:10025"},
			pace, admin,
		}},
		{"nginx", "an API behind nginx, which asks weir", []starterAsk{
			quiet("console", console),
			{flag: "listen", question: asked, usual: "127.0.0.1:9003"},
			key,
			{flag: "limit", question: perKey, usual: "100/1m"},
		}},
		{"envoy", "an API behind Envoy, which asks weir", []starterAsk{
			quiet("console", console),
			{flag: "listen", question: asked, usual: "127.0.0.1:8081"},
			key,
			{flag: "limit", question: perKey, usual: "100/1m"},
		}},
	}
}

func starterKinds() (all []string) {
	for _, s := range starters() {
		all = append(all, s.kind)
	}
	return all
}

// starterOf returns the starter of a kind, which may also be its number in the list.
func starterOf(kind string) (starter, error) {
	all := starters()
	if n, err := strconv.Atoi(kind); err == nil && n >= 1 && n <= len(all) {
		return all[n-1], nil
	}
	if i := slices.IndexFunc(all, func(s starter) bool { return s.kind == kind }); i >= 0 {
		return all[i], nil
	}
	return starter{}, &weir.FieldError{Msg: fmt.Sprintf("%.40q is not one of them", kind),
		Hint: weir.Suggest(kind, starterKinds()...)}
}

// clean checks what was typed before it goes into a file.
func clean(answer string) error {
	switch {
	case len(answer) > maxAnswer:
		return errLongAnswer
	case !utf8.ValidString(answer) || strings.IndexFunc(answer, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0:
		return errors.New("an answer has no control characters")
	}
	return nil
}

// A rendered starter is the text of the file, the commands that show what it does, and a sentence about these.
type rendered struct{ file, try, says string }

// render makes the file. answers are by the names of their flags.
func (s *starter) render(answers map[string]string) (r rendered, err error) {
	values, err := s.values(answers)
	if err != nil {
		return r, err
	}
	t := template.New(s.kind).Option("missingkey=error")
	t.Funcs(template.FuncMap{
		"yaml":  yamlText,
		"shell": shellWord,
		"comment": func(text string) string {
			return "#     " + strings.ReplaceAll(text, "\n", "\n#     ")
		},
		"try": func() string { return r.try },
	})
	if _, err := t.ParseFS(starterFiles, "starters/common.tmpl", "starters/"+s.kind+".tmpl"); err != nil {
		return r, err
	}
	for _, part := range []struct {
		name string
		text *string
	}{{"try", &r.try}, {"says", &r.says}, {"file", &r.file}} {
		var b strings.Builder
		if err := t.ExecuteTemplate(&b, part.name, values); err != nil {
			return r, err
		}
		*part.text = b.String()
	}
	return r, nil
}

// check renders the file and checks it as weir check does.
func (s *starter) check(answers map[string]string) (*config.Config, error) {
	file := answers["out"]
	r, err := s.render(answers)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Parse(file, []byte(r.file))
	if err != nil {
		return nil, err
	}
	return cfg, built(cfg, file)
}

// values are what the templates fill in: the answers, and what follows from them.
func (s *starter) values(answers map[string]string) (map[string]any, error) {
	values := map[string]any{"cert": "", "key": ""}
	for flag, answer := range answers {
		values[flag] = answer
	}
	count, period, calendar, err := s.limit(answers["limit"])
	if err != nil {
		return nil, err
	}
	// Two periods at once, in fives: a Bloom limiter has five parts, and rounds its burst down to a multiple of that.
	// With less than fifteen, visitors would refuse each other.
	burst := max(15, (2*count+4)/5*5)
	values["count"], values["period"], values["sliding"], values["burst"] = count, period, !calendar, burst
	if text, ok := answers["concurrent"]; ok {
		if values["concurrent"], err = weir.ParseCount(text); err != nil {
			return nil, err
		}
	}
	values["realm"] = answers["hostname"]
	if _, parent, _ := strings.Cut(answers["hostname"], "."); strings.Contains(parent, ".") {
		values["realm"] = parent
	}
	if text, ok := answers["proxy"]; ok {
		var proxies []string
		if !isNone(text) {
			proxies = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
		}
		values["proxies"], values["forwarded"] = proxies, strings.ToLower(answers["proxy-header"])
	}
	if answers["cert"] == "" != (answers["key"] == "") {
		return nil, errors.New("a certificate needs its key (write --cert mail.pem --key mail.key)")
	}
	if local, err := loopbackListen(answers["console"]); err != nil || !local {
		return nil, &weir.FieldError{Msg: fmt.Sprintf("%q is not an address of this machine alone", answers["console"]),
			Hint: "write " + console.DefaultListen}
	}
	values["file"] = shellWord(answers["out"])
	if answers["out"] == standardOutput {
		values["file"] = "weir.yaml"
	}
	reach := reachable(answers["listen"])
	last := count + 1
	if s.kind == "site" { // some come back while the others are asked for
		last = 2 * burst
	}
	query := fmt.Sprintf("/?[1-%d]", last)
	values["reach"], values["url"] = reach, shellQuote("http://"+reach+query)
	if path, ok := strings.CutPrefix(answers["listen"], "unix:"); ok {
		values["url"] = "--unix-socket " + shellWord(path) + " " + shellQuote("http://localhost"+query)
	}
	values["through"] = shellQuote("http://127.0.0.1:10000" + query)
	for name, hits := range map[string]int64{"fill": count, "more": 1} {
		if values[name], err = grpcEscapes(limitQuestion(uint32(hits))); err != nil {
			return nil, err
		}
	}
	values["service"] = strings.ReplaceAll(values["url"].(string), query, rls.RateLimitService_ShouldRateLimit_FullMethodName)
	values["asks"] = "inet:" + reach
	if strings.HasPrefix(answers["listen"], "unix:") {
		values["asks"] = answers["listen"]
	}
	if host, port, err := net.SplitHostPort(answers["divert"]); err == nil {
		values["filter"] = fmt.Sprintf("weir:[%s]:%s", host, port)
	} else if _, ok := answers["divert"]; ok {
		return nil, &weir.FieldError{Msg: fmt.Sprintf("%q is not an address with a port", answers["divert"]),
			Hint: "write 127.0.0.1:2526"}
	}
	return values, nil
}

// limitQuestion is what Envoy asks a rate limit service about a key: may it have so many hits?
func limitQuestion(hits uint32) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: "edge", HitsAddend: hits, Descriptors: []*common.RateLimitDescriptor{{
		Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: "test"}}}}}
}

// grpcEscapes is a message as gRPC sends it, for printf of a shell: letters as they are, other bytes in octal.
func grpcEscapes(m proto.Message) (string, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, c := range append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...) {
		if c >= 'a' && c <= 'z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return b.String(), nil
}

// limit reads a limit: of a quota with a period, which may be one of the calendar, else a rate.
func (s *starter) limit(text string) (count int64, period string, calendar bool, err error) {
	if slices.Contains([]string{"api", "nginx", "envoy"}, s.kind) {
		const hint = "write 5/s, 100/1m or 10000/month"
		number, per, found := strings.Cut(text, "/")
		if !found {
			return 0, "", false, &weir.FieldError{Msg: fmt.Sprintf("%q does not say per what", text), Hint: hint}
		}
		if count, err = weir.ParseCount(number); err != nil {
			return 0, "", false, &weir.FieldError{Msg: fmt.Sprintf("%q is not a limit", text), Hint: hint}
		}
		per = strings.TrimSpace(per)
		p, err := weir.ParsePeriod(per)
		if err != nil {
			p, err = weir.ParsePeriod("1" + per) // 5/s
		}
		if err != nil {
			return 0, "", false, &weir.FieldError{Msg: fmt.Sprintf("%q is not a limit", text), Hint: hint}
		}
		period, calendar = p.String(), p.Calendar != weir.NoCalendar
	} else {
		r, err := weir.ParseRate(text)
		if err != nil {
			return 0, "", false, err
		}
		count, period = r.Count, r.String()
	}
	switch {
	case count < 1:
		err = &weir.FieldError{Msg: fmt.Sprintf("%q lets nobody through", text), Hint: "write at least 1"}
	case count > maxInitLimit:
		err = errLargeLimit
	}
	return count, period, calendar, err
}

// reachable is where a client on this machine finds a listener.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// loopbackListen reports whether only this machine can connect to an address.
func loopbackListen(listen string) (bool, error) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false, err
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// plainText is what stands in YAML, and in a shell, as it is.
var plainText = regexp.MustCompile(`^([A-Za-z0-9]+\.|[./]|[A-Za-z]+[@:/-])[A-Za-z0-9./:@_-]*[A-Za-z0-9]$`)

// yamlText writes a text so that YAML reads it as that text. It has no control characters.
func yamlText(text string) string {
	if _, err := strconv.ParseFloat(text, 64); err != nil && plainText.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

// shellWord writes a text so that a shell reads it as one word.
func shellWord(text string) string {
	if plainText.MatchString(text) {
		return text
	}
	return shellQuote(text)
}

// shellQuote quotes a text for a shell.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
