package identify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir"
)

// Bounds on rules of same addresses.
const (
	MaxAliasRules   = 100   // rules
	MaxAliasDomains = 1_000 // of one rule
	maxTags         = 8
	maxDomain       = 255 // bytes
)

// An AliasRule is a rule that says which addresses of some domains belong to the same person.
type AliasRule struct {
	// The domains: example.org, or .example.org with everything below it; * for all others.
	Domains []string `yaml:"domains"`
	// The characters that begin a tag before the @, which is left out: "+" makes ann+shop@example.org ann@example.org.
	Tags string `yaml:"tags"`
	// Leave dots before the @ out.
	Dots bool `yaml:"dots"`
	// The domain that all of these are the same as.
	As string `yaml:"as"`
}

// builtIn are the rules of large providers. An operator's rule for one domain of a provider replaces all of them for
// that provider.
var builtIn = []AliasRule{
	{Domains: []string{"gmail.com", "googlemail.com"}, Tags: "+", Dots: true, As: "gmail.com"},
	{Domains: []string{"outlook.com", "hotmail.com", "live.com"}, Tags: "+"},
	{Domains: []string{"icloud.com", "me.com", "mac.com"}, Tags: "+"},
	{Domains: []string{"proton.me", "protonmail.com", "pm.me"}, Tags: "+"},
	{Domains: []string{"fastmail.com"}, Tags: "+"},
}

// Aliases knows which addresses belong to the same person. Most callers want Address. Goroutines may share it.
type Aliases struct {
	exact  map[string]*AliasRule
	below  map[string]*AliasRule // by the domain, without the dot before it
	others *AliasRule
}

// NewAliases returns an operator's rules, together with those of large providers for which the operator has none: the
// dots and tags of gmail.com, the tags of outlook.com and others. The error joins weir.FieldErrors, below [i] of rule
// i.
func NewAliases(rules []AliasRule) (*Aliases, error) {
	s := &Aliases{exact: map[string]*AliasRule{}, below: map[string]*AliasRule{}}
	if err := s.add(rules); err != nil {
		return nil, err
	}
	for i := range builtIn {
		known := &builtIn[i]
		if slices.ContainsFunc(known.Domains, func(domain string) bool { return s.find(domain) != s.others }) {
			continue
		}
		for _, domain := range known.Domains {
			s.exact[domain] = known
		}
	}
	return s, nil
}

// add adds an operator's rules, which must not contradict each other.
func (s *Aliases) add(rules []AliasRule) error {
	var v weir.Mistakes
	if !v.AtMost("", "rules", len(rules), MaxAliasRules) {
		return v.Err()
	}
	listed, as := map[string]string{}, map[string]int{}
	for i, rule := range rules {
		at := fmt.Sprintf("[%d]", i)
		if err := rule.Validate(); err != nil {
			v.Under(at, err)
			continue
		}
		rule.As = Domain(rule.As)
		for j, domain := range rule.Domains {
			here := fmt.Sprintf("%s.domains[%d]", at, j)
			base, below := strings.CutPrefix(domain, ".")
			base = Domain(base)
			name := base
			if below {
				name = "." + base
			}
			if before, double := listed[name]; double {
				v.Add(here, fmt.Sprintf("%q is listed twice", domain), "it is "+before+" already")
				continue
			}
			listed[name] = here
			switch {
			case base == "*":
				s.others = &rule
			case below:
				s.below[base] = &rule
			default:
				s.exact[base] = &rule
			}
		}
		if rule.As == "" {
			continue
		}
		if before, double := as[rule.As]; double {
			v.Add(at+".as", fmt.Sprintf("%q is what [%d] has already", rule.As, before),
				"write all of its domains under one rule")
			continue
		}
		as[rule.As] = i
	}
	// The domain in As belongs to its own rule: its addresses are treated like the others.
	for i, rule := range rules {
		as := Domain(rule.As)
		if as == "" || len(v) > 0 {
			continue
		}
		switch own, found := s.exact[as]; {
		case !found:
			rule.As = as
			s.exact[as] = &rule
		case own.As != as:
			v.Add(fmt.Sprintf("[%d].as", i), fmt.Sprintf("%q has a rule of its own", as),
				"write all of its domains under one rule")
		}
	}
	return v.Err()
}

// Validate returns every mistake in the rule, as joined weir.FieldErrors.
func (r AliasRule) Validate() error {
	var v weir.Mistakes
	switch {
	case len(r.Domains) == 0:
		v.Add("domains", "no domains", "write [example.org], or [\"*\"] for all")
	case len(r.Domains) > MaxAliasDomains:
		v.Add("domains", fmt.Sprintf("%d are too many", len(r.Domains)), fmt.Sprintf("at most %d", MaxAliasDomains))
	default:
		for i, domain := range r.Domains {
			if domain != "*" && !domainName(strings.TrimPrefix(domain, ".")) {
				v.Add(fmt.Sprintf("domains[%d]", i), fmt.Sprintf("%.64q is not a domain", domain),
					"write example.org, .example.org with everything below it, or * for all others")
			}
		}
	}
	wrong := strings.IndexFunc(r.Tags, func(c rune) bool {
		return c <= ' ' || c > '~' || c == '@' || c == '"' || isLetter(byte(c)) || isDigit(byte(c))
	})
	switch {
	case strings.Contains(r.Tags, "."):
		v.Add("tags", "a dot begins no tag", "dots: true leaves dots out")
	case wrong >= 0 || len(r.Tags) > maxTags:
		v.Add("tags", fmt.Sprintf("%.64q cannot begin a tag", r.Tags),
			fmt.Sprintf(`at most %d characters, as in "+" or "+-"`, maxTags))
	}
	switch {
	case r.As == "":
	case slices.Contains(r.Domains, "*"):
		v.Add("as", "all domains cannot be the same as one", "list the domains that are")
	case !domainName(r.As):
		v.Add("as", fmt.Sprintf("%.64q is not a domain", r.As), "write example.org")
	}
	return v.Err()
}

// find returns the rule of a domain, or nil.
func (s *Aliases) find(domain string) *AliasRule {
	if rule := s.exact[domain]; rule != nil {
		return rule
	}
	for rest, more := domain, len(s.below) > 0; more; _, rest, more = strings.Cut(rest, ".") {
		if rule := s.below[rest]; rule != nil {
			return rule
		}
	}
	return s.others
}

// Address returns the one form of all addresses of a person, by which that person is counted: that of Recipient, with
// the domain in ASCII, and without the parts that make no difference by the rules. Mail cannot be sent to it.
func (s *Aliases) Address(address string) (string, error) {
	if end := strings.TrimSuffix(address, "."); end != address {
		address = end
	} else if end, found := strings.CutSuffix(address, ".>"); found {
		address = end + ">"
	}
	at := plainAddress(address)
	if at > 0 {
		address = strings.ToLower(address)
	} else {
		var err error
		if address, err = Recipient(address); err != nil {
			return "", err
		}
		at = strings.LastIndexByte(address, '@')
		if domain := Domain(address[at+1:]); at+1+len(domain) <= MaxRecipient {
			address = address[:at+1] + domain
		}
	}
	local, domain := address[:at], address[at+1:]
	rule := s.find(domain)
	if rule == nil {
		return address, nil
	}
	if tag := strings.IndexAny(local, rule.Tags); tag > 0 {
		local = local[:tag]
	}
	if rule.Dots && strings.Contains(local, ".") {
		local = cmp.Or(strings.ReplaceAll(local, ".", ""), local)
	}
	if rule.As != "" && len(local)+1+len(rule.As) <= MaxRecipient {
		domain = rule.As
	}
	if len(local) == at && len(domain) == len(address)-at-1 && domain == address[at+1:] {
		return address, nil
	}
	return local + "@" + domain, nil
}

// plainAddress returns the index of the @ in an address of the usual kind, which only has to be lower-cased. For any
// other it returns 0.
func plainAddress(address string) int {
	if len(address) > MaxRecipient {
		return 0
	}
	at, last := 0, byte('.')
	for i := range len(address) {
		c := address[i]
		switch {
		case isLetter(c), isDigit(c), c == '-', c == '_':
		case c == '.' && last != '.' && last != '@':
		case c == '+' && at == 0:
		case c == '@' && at == 0 && i > 0 && last != '.':
			at = i
		default:
			return 0
		}
		last = c
	}
	if last == '.' || last == '@' {
		return 0
	}
	return at
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
