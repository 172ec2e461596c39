package identify

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"weir"
)

// Bounds on what an operator may write about exempt clients.
const (
	MaxExemptPaths    = 1000
	MaxExemptNetworks = 100_000 // in options and files, of bots too
	MaxExemptFiles    = 100     // of bots too
	MaxBots           = 100
	MaxBotDomains     = 20 // of one bot
	MaxExemptAccounts = 10_000
	MaxExemptPlans    = 100

	maxExemptPath = 1024 // bytes
	maxPlan       = 64
	minAgent      = 3
	maxAgent      = 100
	agentRead     = 512 // how many bytes of an agent are read
)

// ExemptOptions are the clients that are never asked for a stamp.
type ExemptOptions struct {
	// Paths that are free for everybody: /healthz exactly, /webhooks/* with everything below.
	Paths []string `yaml:"paths"`
	// Networks that are never asked: the office, monitoring, partners.
	Networks []netip.Prefix `yaml:"networks"`
	// Files with more such networks: one per line, or in the JSON that search engines publish. They are read again on a
	// reload.
	Files []string `yaml:"files" file:"beside"`
	// Programs that are welcome, such as the crawlers of search engines. What they call themselves is never enough.
	Bots []Bot `yaml:"bots"`
	// Accounts that are never asked, as the gate finds them: exactly, without patterns. An account that clients can
	// simply write, in a header for example, exempts anyone who sends it: list ids that a token or a certificate
	// proves, or that nobody can guess.
	Accounts []string `yaml:"accounts"`
	// Plans whose accounts are never asked, as the gate knows them: by a token, or from the service that asks the
	// decision API.
	Plans []string `yaml:"plans"`
}

// A Bot is a program that is welcome when it comes from where it should: from its networks, or from an address whose
// name in DNS is below its domains and leads back to that address.
type Bot struct {
	// What it is called here.
	Name string `yaml:"name"`
	// A part of what it calls itself in User-Agent, as in Googlebot. Upper and lower case are the same.
	Agent string `yaml:"agent"`
	// Domains that the names of its addresses are below, as in googlebot.com. The first visit from an address is asked
	// all the same: DNS takes a while to answer.
	Domains []string `yaml:"domains"`
	// Networks that it comes from.
	Networks []netip.Prefix `yaml:"networks"`
	// Files with more such networks, as its operator publishes them.
	Files []string `yaml:"files" file:"beside"`
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. NewExempt looks into the files.
func (o ExemptOptions) Validate() error {
	var v weir.Mistakes
	if v.AtMost("paths", "paths", len(o.Paths), MaxExemptPaths) {
		for i, p := range o.Paths {
			validatePath(fmt.Sprintf("paths[%d]", i), p, &v)
		}
	}
	networks, files := len(o.Networks), len(o.Files)
	if v.AtMost("bots", "bots", len(o.Bots), MaxBots) {
		names := map[string]bool{}
		for i, b := range o.Bots {
			at := fmt.Sprintf("bots[%d].", i)
			b.validate(at, &v)
			if names[b.Name] && b.Name != "" {
				v.Add(at+"name", fmt.Sprintf("there is another bot %q", b.Name), "names must differ")
			}
			names[b.Name] = true
			networks += len(b.Networks)
			files += len(b.Files)
		}
	}
	if v.AtMost("networks", "networks, with those of bots,", networks, MaxExemptNetworks) {
		validateNetworks("networks", o.Networks, &v)
		for i, b := range o.Bots[:min(len(o.Bots), MaxBots)] {
			validateNetworks(fmt.Sprintf("bots[%d].networks", i), b.Networks, &v)
		}
	}
	if v.AtMost("files", "files, with those of bots,", files, MaxExemptFiles) {
		o.eachFile(func(at, name string, _ int) {
			if name == "" || strings.IndexByte(name, 0) >= 0 {
				v.Add(at, "not a file", "write the path of a list of networks")
			}
		})
	}
	if v.AtMost("accounts", "accounts", len(o.Accounts), MaxExemptAccounts) {
		for i, id := range o.Accounts {
			validateAccount(fmt.Sprintf("accounts[%d]", i), id, &v)
		}
	}
	if v.AtMost("plans", "plans", len(o.Plans), MaxExemptPlans) {
		for i, name := range o.Plans {
			if name == "" || len(name) > maxPlan || strings.Contains(name, "*") {
				v.Add(fmt.Sprintf("plans[%d]", i), fmt.Sprintf("%.64q is not a plan", name),
					fmt.Sprintf("write its name, 1 to %d bytes, without stars", maxPlan))
			}
		}
	}
	return v.Err()
}

// validateAccount reports mistakes in an account. They have no part of the id, which may be a secret.
func validateAccount(at, id string, v *weir.Mistakes) {
	switch err := check(id); {
	case id == "":
		v.Add(at, "an account has no name", "write its id, or leave it out")
	case err == ErrAccountReserved:
		v.Add(at, err.Error(), "list the address under networks")
	case err != nil:
		v.Add(at, err.Error(), "write the id as clients send it")
	case strings.Contains(id, "*"):
		v.Add(at, "an account with a star: patterns would exempt accounts that are invented to match",
			"write each account, or their plan under plans")
	}
}

func (b *Bot) validate(at string, v *weir.Mistakes) {
	if b.Name == "" {
		v.Add(strings.TrimSuffix(at, "."), "the bot has no name", "add name: googlebot")
	} else if len(b.Name) > 64 || !isPrintable(b.Name) {
		v.Add(at+"name", fmt.Sprintf("%.64q is not a name", b.Name), "printable characters, at most 64")
	}
	switch {
	case b.Agent == "":
		v.Add(at+"agent", "what the bot calls itself in User-Agent is missing",
			"add agent: Googlebot; write networks that are always welcome outside bots")
	case len(b.Agent) < minAgent || len(b.Agent) > maxAgent || !isPrintable(b.Agent):
		v.Add(at+"agent", fmt.Sprintf("%.100q says too little, or too much", b.Agent),
			fmt.Sprintf("%d to %d printable characters of its User-Agent", minAgent, maxAgent))
	}
	if len(b.Domains)+len(b.Networks)+len(b.Files) == 0 {
		v.Add(strings.TrimSuffix(at, "."), "what a program calls itself is not enough: anybody can say that",
			"add domains, networks or files")
	}
	if !v.AtMost(at+"domains", "domains", len(b.Domains), MaxBotDomains) {
		return
	}
	for i, d := range b.Domains {
		here := fmt.Sprintf("%sdomains[%d]", at, i)
		switch plain := strings.TrimPrefix(strings.TrimPrefix(d, "*"), "."); {
		case plain != d && isDomain(plain):
			v.Add(here, fmt.Sprintf("%q is not a domain", d),
				fmt.Sprintf("write %s: everything below it is meant anyway", plain))
		case !isDomain(d):
			v.Add(here, fmt.Sprintf("%.100q is not a domain", d), "write googlebot.com")
		case !strings.Contains(strings.TrimSuffix(d, "."), "."):
			v.Add(here, fmt.Sprintf("%q is a whole top-level domain: anybody can have a name there", d),
				"write googlebot.com")
		}
	}
}

func validatePath(at, p string, v *weir.Mistakes) {
	exact := strings.TrimSuffix(p, "/*")
	switch {
	case len(p) > maxExemptPath:
		v.Add(at, fmt.Sprintf("a path of %d bytes is too long", len(p)), fmt.Sprintf("at most %d", maxExemptPath))
	case !strings.HasPrefix(p, "/"):
		v.Add(at, fmt.Sprintf("%q does not start with a slash", p), "write /healthz or /webhooks/*")
	case p == "/*" || p == "/**":
		v.Add(at, fmt.Sprintf("with %s nobody is ever asked", p), "leave the throttle out of the gate's list instead")
	case strings.HasSuffix(p, "/**"):
		v.Add(at, fmt.Sprintf("%q has a star too many", p),
			fmt.Sprintf("write %s: all below is meant anyway", strings.TrimSuffix(p, "*")))
	case strings.Contains(exact, "*"):
		v.Add(at, fmt.Sprintf("%q has a star in the middle", p),
			"a star may only follow the last slash, as in /webhooks/*")
	case strings.ContainsAny(exact, "%?#"):
		v.Add(at, fmt.Sprintf("%q never matches", p),
			"paths are matched with percent signs decoded, and without the query")
	case path.Clean(exact) != exact:
		v.Add(at, fmt.Sprintf("%q never matches", p),
			"paths are matched without double slashes, dots and a slash at the end")
	}
}

func validateNetworks(at string, networks []netip.Prefix, v *weir.Mistakes) {
	v.Networks(at, networks)
	for i, p := range networks {
		if fault := tooWide(p); p.IsValid() && fault != nil {
			v.Add(fmt.Sprintf("%s[%d]", at, i), fault.Msg, fault.Hint)
		}
	}
}

// eachFile calls f with every file, the field that names it, and the bot that it belongs to; -1 for none.
func (o *ExemptOptions) eachFile(f func(at, name string, bot int)) {
	for i, name := range o.Files {
		f(fmt.Sprintf("files[%d]", i), name, -1)
	}
	for b := range o.Bots {
		for i, name := range o.Bots[b].Files {
			f(fmt.Sprintf("bots[%d].files[%d]", b, i), name, b)
		}
	}
}

// EachListed calls f with every network in the files that can be read, and the field that names the file.
func (o *ExemptOptions) EachListed(read func(path string) ([]byte, error), f func(field string, p netip.Prefix)) {
	o.eachFile(func(at, name string, _ int) {
		networks, fault := readList(name, read)
		if fault != nil {
			return
		}
		for _, p := range networks {
			f(at, p)
		}
	})
}

// Exempt knows the clients that are never asked for a stamp. Most callers want Known. It asks for DNS lookups through
// Unsure and gets the results by Confirm. Nil and the zero value know no client. Goroutines may share it.
type Exempt struct {
	exact  map[string]struct{}
	below  map[string]struct{} // paths without their "/*"
	widths []int               // lengths of paths that occur in below
	own    Ranges[struct{}]
	names  map[string]struct{} // accounts
	plans  map[string]struct{}
	bots   []bot
	starts [256][]uint8 // bots by the first letters of their agent
	files  []string

	dns    *dnsCache
	unsure atomic.Pointer[func(netip.Addr)]
}

// A bot is a Bot with its lists read.
type bot struct {
	agent    string   // in lower case
	domains  []string // in lower case, without a dot at the end
	networks Ranges[struct{}]
}

// NewExempt reads the files by a function, such as os.ReadFile. Its error names the file and line of a wrong list.
func NewExempt(o ExemptOptions, read func(path string) ([]byte, error)) (*Exempt, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	g := &Exempt{exact: map[string]struct{}{}, below: map[string]struct{}{}, bots: make([]bot, len(o.Bots)),
		dns: newDNSCache(), names: setOf(o.Accounts), plans: setOf(o.Plans)}
	for _, p := range o.Paths {
		p, deep := strings.CutSuffix(p, "/*")
		if !deep {
			g.exact[p] = struct{}{}
			continue
		}
		g.below[p] = struct{}{}
		g.widths = append(g.widths, len(p))
	}
	slices.Sort(g.widths)
	g.widths = slices.Compact(g.widths)
	count := len(o.Networks)
	addAll(&g.own, o.Networks)
	for i, b := range o.Bots {
		agent := strings.ToLower(b.Agent)
		g.bots[i].agent = agent
		at := start(agent[0], agent[1], agent[2])
		g.starts[at] = append(g.starts[at], uint8(i))
		for _, d := range b.Domains {
			g.bots[i].domains = append(g.bots[i].domains, strings.ToLower(strings.TrimSuffix(d, ".")))
		}
		count += len(b.Networks)
		addAll(&g.bots[i].networks, b.Networks)
	}
	var faults weir.Mistakes
	o.eachFile(func(at, name string, bot int) {
		g.files = append(g.files, name)
		networks, fault := readList(name, read)
		if count += len(networks); fault == nil && count > MaxExemptNetworks {
			fault = &weir.FieldError{Msg: fmt.Sprintf("with %s there are more than %d networks", name,
				MaxExemptNetworks), Hint: "leave some out, or write wider ones"}
		}
		switch {
		case fault != nil:
			fault.Path = at
			faults = append(faults, fault)
		case bot < 0:
			addAll(&g.own, networks)
		default:
			addAll(&g.bots[bot].networks, networks)
		}
	})
	slices.Sort(g.files)
	g.files = slices.Compact(g.files)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return g, nil
}

func setOf(all []string) map[string]struct{} {
	set := make(map[string]struct{}, len(all))
	for _, s := range all {
		set[s] = struct{}{}
	}
	return set
}

func addAll(r *Ranges[struct{}], networks []netip.Prefix) {
	for _, p := range networks {
		r.Add(p, struct{}{})
	}
}

// Files returns the files that were read.
func (g *Exempt) Files() []string {
	if g == nil {
		return nil
	}
	return slices.Clone(g.files)
}

// Known reports whether an event needs no stamp, by its path, client or account. It allocates nothing.
//
// The path of an event is a cleaned one, and not the one that the upstream gets. So a path counts only if it came
// Straight.
func (g *Exempt) Known(ev *weir.Event) bool {
	return !ev.Route.Odd && g.KnownPath(ev.Route.Path) || g.KnownAccount(ev) || g.KnownClient(ev)
}

// KnownAccount reports whether an event's account or plan is never asked. It trusts the gate.
func (g *Exempt) KnownAccount(ev *weir.Event) bool {
	if g == nil {
		return false
	}
	_, account := g.names[ev.Account]
	_, plan := g.plans[ev.Plan]
	return account || plan
}

// KnownPath reports whether a path is free for everybody. The path is one that Path returned. "/webhooks/*" includes
// "/webhooks", since Path leaves out the slash at the end.
func (g *Exempt) KnownPath(p string) bool {
	if g == nil || p == "" {
		return false
	}
	if _, exact := g.exact[p]; exact {
		return true
	}
	for _, n := range g.widths {
		if n > len(p) {
			break
		}
		if n < len(p) && p[n] != '/' {
			continue
		}
		if _, below := g.below[p[:n]]; below {
			// For some servers "/webhooks/..;/search" is "/search".
			return !strings.ContainsAny(p, `\;%`) && !strings.Contains(p, "/..") && utf8.ValidString(p)
		}
	}
	return false
}

// KnownClient reports whether the client of an event is known: by its network, or as a bot by its agent and its
// address. If only DNS could tell, it is unknown until Confirm. If the client has two possible addresses, both must be
// known.
func (g *Exempt) KnownClient(ev *weir.Event) bool {
	return g != nil && ev.Freed(func(addr netip.Addr) bool { return g.knownAt(Plain(addr), ev) })
}

// knownAt is KnownClient for an event that came from an address.
func (g *Exempt) knownAt(addr netip.Addr, ev *weir.Event) bool {
	if _, own := g.own.Find(addr); own {
		return true
	}
	if len(g.bots) == 0 || len(ev.Agent) < minAgent {
		return false
	}
	claims := g.claims(ev.Agent)
	if claims == (botSet{}) {
		return false
	}
	named := false
	for i := range g.bots {
		if !claims.has(i) {
			continue
		}
		if _, there := g.bots[i].networks.Find(addr); there {
			return true
		}
		named = named || len(g.bots[i].domains) > 0
	}
	return named && g.confirmed(addr, claims, ev.Time)
}

// claims returns the bots that an agent names. It reads the agent once, so that long ones cost little.
func (g *Exempt) claims(agent string) (claims botSet) {
	agent = agent[:min(len(agent), agentRead)]
	var first, second byte
	for i := range len(agent) {
		third := lower(agent[i])
		for _, b := range g.starts[start(first, second, third)] {
			if i >= 2 && hasStart(agent[i-2:], g.bots[b].agent) {
				claims.add(int(b))
			}
		}
		first, second = second, third
	}
	return claims
}

// start is a hash of the first letters of an agent, so that few bots have to be compared.
func start(first, second, third byte) uint8 { return first + 3*second + 5*third }

func hasStart(name, with string) bool {
	return len(name) >= len(with) && strings.EqualFold(name[:len(with)], with)
}

func fromHex(c byte) (byte, bool) {
	i := strings.IndexByte("0123456789abcdef", lower(c))
	return byte(i), i >= 0
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// isPrintable reports whether s is printable ASCII.
func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
