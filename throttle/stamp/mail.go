package stamp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"weir"
	"weir/throttle/stamp/classic"
)

// Bounds of mail stamps.
const (
	// MailHeader is the header field that carries a stamp; one for each recipient.
	MailHeader = "X-Weir-Stamp"
	// MaxMailStamp is how many characters one is long, at most.
	MaxMailStamp = 56 + 1 + maxSolutionText
	// MaxMailStamps is how many are looked at in one mail.
	MaxMailStamps = 1000
	// MaxMailParams is how many bytes the published parameters are long, at most.
	MaxMailParams = 4096

	mailSeedBytes = 16
	mailBytes     = 42 // version, algorithm, hour, work, nonce, hint, tag
	mailHintBytes = 4
	mailTagBytes  = 8
	maxOwn        = 8 // stamps of one recipient that are looked at
)

// MailParams are what a mail server publishes, so that stamps can be made without asking it: the puzzle, the work, and
// a seed that changes every hour, so that stamps cannot be made long ahead. As JSON:
//
//	{"version":1,"algorithm":"sha256-k","work":1048576,"hour":492348,"seed":"mHWmV2sHmHrgI1rhhS6Hpg"}
type MailParams struct {
	Algorithm Algorithm
	Work      Work
	Hour      int64 // since the epoch
	Seed      [mailSeedBytes]byte
}

type mailParamsJSON struct {
	Version   int       `json:"version"`
	Algorithm Algorithm `json:"algorithm"`
	Work      uint64    `json:"work"`
	Hour      int64     `json:"hour"`
	Seed      string    `json:"seed"`
}

func (p MailParams) MarshalJSON() ([]byte, error) {
	return json.Marshal(mailParamsJSON{version, p.Algorithm, uint64(p.Work), p.Hour,
		encoding.EncodeToString(p.Seed[:])})
}

// UnmarshalJSON reads the parameters. Fields of later versions are ignored.
func (p *MailParams) UnmarshalJSON(data []byte) error {
	if len(data) > MaxMailParams {
		return fmt.Errorf("%w: parameters of %d bytes", ErrMalformed, len(data))
	}
	var j mailParamsJSON
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&j); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	seed, err := encoding.DecodeString(j.Seed)
	if j.Version != version || err != nil || len(seed) != mailSeedBytes || j.Work < 1 || Work(j.Work) > MaxWork ||
		j.Hour < 0 || j.Hour >= 1<<32 {
		return fmt.Errorf("%w: not parameters of version %d", ErrMalformed, version)
	}
	if err := mailable(j.Algorithm, Work(j.Work)); err != nil {
		return err
	}
	*p = MailParams{j.Algorithm, Work(j.Work), j.Hour, [mailSeedBytes]byte(seed)}
	return nil
}

// ReadMailParams reads published parameters.
func ReadMailParams(r io.Reader) (MailParams, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxMailParams+1))
	if err != nil {
		return MailParams{}, err
	}
	if len(data) > MaxMailParams {
		return MailParams{}, fmt.Errorf("%w: more than %d bytes", ErrMalformed, MaxMailParams)
	}
	var p MailParams
	err = json.Unmarshal(data, &p)
	return p, err
}

// mailable reports whether an algorithm works where the stamper makes the puzzle.
func mailable(a Algorithm, w Work) error {
	if !a.known() {
		return ErrMalformed
	}
	if got, _ := puzzles[a].fit(w); got == DLog {
		return fmt.Errorf("%w: %s of %s", ErrAlgorithm, a, w) // whoever draws x knows it
	}
	return nil
}

// A MailBinding is what a mail stamp pays for: one message to one recipient.
type MailBinding struct {
	Message   string    // its id or, better, a digest of its body: a changed space needs a new stamp
	Recipient string    // normalised alike on both sides
	Date      time.Time // of the message, to the second; zero where it is not bound
}

// mailChallenge is the puzzle of a message to a recipient. It follows from the parameters, the binding and the nonce.
// The recipient is inside the hash, so that a stamp that is copied to another recipient is worth nothing.
func mailChallenge(p *MailParams, l *MailBinding, nonce Nonce) (c Challenge, err error) {
	a, w := puzzles[p.Algorithm].fit(p.Work)
	var numbers [17]byte
	numbers[0] = byte(a)
	binary.BigEndian.PutUint64(numbers[1:], uint64(w))
	if !l.Date.IsZero() {
		binary.BigEndian.PutUint64(numbers[9:], uint64(l.Date.Unix()))
	}
	sum := digest("weir mail stamp", uint32(p.Hour), string(p.Seed[:]), string(numbers[:]), ID(l.Message),
		ID(l.Recipient), string(nonce[:]))
	c = Challenge{Algorithm: a, Work: w, Expires: time.Unix((p.Hour+2)*3600, 0), Lifetime: 2 * time.Hour,
		Message: ID(l.Message), Client: ID(l.Recipient)}
	copy(c.Nonce[:], sum[:])
	copy(c.tag[:], sum[nonceBytes:])
	if a == DLogClassic {
		c.Data = classic.Prime(uint64(w), binary.BigEndian.Uint64(sum[24:]))
	}
	return c, mailable(p.Algorithm, p.Work)
}

// A hint tells cheaply which recipient a stamp may be for.
type hint [mailHintBytes]byte

func mailHint(p *MailParams, recipient string) hint {
	sum := digest("weir mail recipient", uint32(p.Hour), string(p.Seed[:]), ID(recipient))
	return hint(sum[:mailHintBytes])
}

// MailStamp makes the stamp for one recipient of a message.
func MailStamp(ctx context.Context, p MailParams, l MailBinding, o SolveOptions) (string, error) {
	var nonce Nonce
	_, _ = rand.Read(nonce[:]) // never fails
	if !p.Algorithm.known() || p.Work < 1 || p.Work > MaxWork {
		return "", ErrMalformed
	}
	c, err := mailChallenge(&p, &l, nonce)
	if err != nil {
		return "", err
	}
	solution, err := o.solve(ctx, &c)
	if err != nil {
		return "", err
	}
	b := make([]byte, 0, mailBytes)
	b = append(b, version, byte(c.Algorithm))
	b = binary.BigEndian.AppendUint32(b, uint32(p.Hour))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Work))
	h := mailHint(&p, l.Recipient)
	b = append(append(append(b, nonce[:]...), h[:]...), c.tag[:mailTagBytes]...)
	return encoding.EncodeToString(b) + "." + encoding.EncodeToString(solution), nil
}

// A mailStamp is a mail stamp taken apart.
type mailStamp struct {
	algorithm Algorithm
	hour      int64
	work      Work
	nonce     Nonce
	hint      hint
	tag       [mailTagBytes]byte
	solution  []byte
}

func parseMailStamp(text string) (m mailStamp, err error) {
	head, tail, found := strings.Cut(text, ".")
	if len(text) > MaxMailStamp || !found {
		return m, ErrMalformed
	}
	var buf [mailBytes]byte
	b, err := decodeText(buf[:], head, MaxChallenge)
	if err != nil || len(b) != mailBytes || b[0] != version || !Algorithm(b[1]).known() {
		return m, ErrMalformed
	}
	m.algorithm = Algorithm(b[1])
	m.hour = int64(binary.BigEndian.Uint32(b[2:]))
	m.work = Work(binary.BigEndian.Uint64(b[6:]))
	copy(m.nonce[:], b[14:])
	copy(m.hint[:], b[30:])
	copy(m.tag[:], b[30+mailHintBytes:])
	_, size := puzzles[m.algorithm].sizes()
	m.solution, err = decodeText(make([]byte, maxSolution), tail, maxSolutionText)
	if err != nil || len(m.solution) != size || m.work < 1 || m.work > MaxWork {
		return m, ErrMalformed
	}
	return m, nil
}

// FoldMailHeader writes a stamp as a header field, with its line end, in lines of at most 78 characters.
func FoldMailHeader(stamp string) string {
	var b strings.Builder
	b.WriteString(MailHeader + ":")
	for width := 77 - len(MailHeader) - 1; stamp != ""; width = 76 {
		n := min(width, len(stamp))
		b.WriteString(" " + stamp[:n])
		b.WriteString("\r\n")
		stamp = stamp[n:]
	}
	return b.String()
}

// UnfoldMailHeader takes the white space out of the value of a header field.
func UnfoldMailHeader(value string) string {
	return strings.Join(strings.FieldsFunc(value,
		func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == '\n' }), "")
}

// MailIssuer publishes parameters and honours mail stamps. It is safe for concurrent use; make it with NewMailIssuer.
type MailIssuer struct {
	ledger Ledger

	mu    sync.Mutex
	keys  *Keyring
	price mailPrice
}

// NewMailIssuer makes one that asks for a stamp for each recipient. Keys may be those of an issuer; the ledger needs
// to remember for two hours, nil makes one that does. dlog does not work without asking the server first.
func NewMailIssuer(o MailOptions, keys *Keyring, ledger Ledger) (*MailIssuer, error) {
	if keys == nil {
		keys = NewKeyring(time.Hour)
	}
	if ledger == nil {
		ledger = NewFilter(2*time.Hour, defaultMaxSpent)
	}
	d := &MailIssuer{ledger: ledger}
	if err := d.Configure(o, keys, time.Time{}); err != nil {
		return nil, err
	}
	return d, nil
}

// Configure changes the options and the keys; nil keeps those that there are. What is spent stays spent, and the price
// that was asked before stays good for MailGrace. On an error nothing has changed.
func (d *MailIssuer) Configure(o MailOptions, keys *Keyring, now time.Time) error {
	if err := o.Validate(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys = cmp.Or(keys, d.keys)
	d.price.set(o.WithDefaults(), now)
	return nil
}

// Observe lets the price follow the load, in use / capacity. Where the price is fixed it does nothing.
func (d *MailIssuer) Observe(now time.Time, load weir.Share) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.price.step(now, load)
}

// Params are what is to be published at a time.
func (d *MailIssuer) Params(now time.Time) MailParams {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.params(d.keys.secrets[0], floorDiv(now.Unix(), 3600))
}

// params are those of an hour. d is locked.
func (d *MailIssuer) params(s secret, hour int64) MailParams {
	return MailParams{d.price.algorithm, d.price.work(), hour, d.keys.seedOf(s, hour)}
}

// mailTerms are those under which stamps are taken at a time.
type mailTerms struct {
	algorithm Algorithm
	good      Work         // is enough: the price, or one of the last minutes that was lower
	honoured  []MailParams // a stamp may have been made under: of this hour and the one before, with any secret
}

func (d *MailIssuer) terms(now time.Time) mailTerms {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.price.ask(now)
	t := mailTerms{algorithm: d.price.algorithm, good: d.price.good()}
	hour := floorDiv(now.Unix(), 3600)
	for _, s := range d.keys.secrets {
		t.honoured = append(t.honoured, d.params(s, hour), d.params(s, hour-1))
	}
	return t
}

// Verify accepts and spends the stamp of a message, or says what is wrong. It honours the seeds of two hours.
func (d *MailIssuer) Verify(ctx context.Context, now time.Time, stamp string, l MailBinding) (Receipt, error) {
	m, err := parseMailStamp(UnfoldMailHeader(stamp))
	if err != nil {
		return Receipt{}, err
	}
	t := d.terms(now)
	return d.verify(ctx, now, &t, t.honoured, &m, &l, d.ledger)
}

// verify is Verify of a stamp that was taken apart.
func (d *MailIssuer) verify(ctx context.Context, now time.Time, t *mailTerms, honoured []MailParams, m *mailStamp,
	l *MailBinding, ledger Ledger) (Receipt, error) {
	if hour := floorDiv(now.Unix(), 3600); m.hour != hour && m.hour != hour-1 {
		return Receipt{}, ErrExpired
	}
	// Another algorithm may take less than its work says.
	if m.algorithm != t.algorithm {
		return Receipt{}, ErrForeign
	}
	if m.work < t.good {
		return Receipt{}, ErrTooEasy
	}
	c, ok := m.challenge(honoured, l)
	if !ok {
		return Receipt{}, ErrForeign
	}
	use := Use{Nonce: c.Nonce, Expires: c.Expires, Covers: 1}
	uses, _, err := ledger.Look(ctx, now, use)
	if err != nil {
		return Receipt{}, err
	}
	if uses > 0 {
		return Receipt{}, ErrReplayed
	}
	if !puzzles[c.Algorithm].check(&c, nil, m.solution) {
		return Receipt{}, ErrWrong
	}
	if uses, err = ledger.Spend(ctx, now, use); err != nil {
		return Receipt{}, err
	}
	return Receipt{Nonce: c.Nonce, Algorithm: c.Algorithm, Work: c.Work, Issued: time.Unix(m.hour*3600, 0),
		Expires: c.Expires, Client: l.Recipient, Message: l.Message, Uses: uses, Covers: 1}, nil
}

// challenge makes the puzzle anew and reports whether the stamp is for it, and made with a seed of ours.
func (m *mailStamp) challenge(honoured []MailParams, l *MailBinding) (Challenge, bool) {
	for _, p := range honoured {
		if p.Hour != m.hour || mailHint(&p, l.Recipient) != m.hint {
			continue
		}
		p.Work = m.work
		c, err := mailChallenge(&p, l, m.nonce)
		if err == nil && c.Work == m.work && hmac.Equal(c.tag[:mailTagBytes], m.tag[:]) {
			return c, true
		}
	}
	return Challenge{}, false
}

// VerifyEach looks for a stamp for each recipient of a mail among the first MaxMailStamps that it carries. errs[i] is
// nil where recipients[i] is paid for, and ErrForeign where no stamp is theirs.
func (d *MailIssuer) VerifyEach(ctx context.Context, now time.Time, stamps []string, l MailBinding,
	recipients []string) (errs []error) {
	_, errs = d.verifyEach(ctx, now, stamps, l, recipients, d.ledger)
	return errs
}

// LookEach is VerifyEach for callers that spend stamps in a transaction of their own, by the nonces of the receipts: it
// asks spent about each stamp and spends none. Two callers at the same time may both find a stamp good.
func (d *MailIssuer) LookEach(ctx context.Context, now time.Time, stamps []string, l MailBinding, recipients []string,
	spent func(context.Context, Nonce) (bool, error)) ([]Receipt, []error) {
	return d.verifyEach(ctx, now, stamps, l, recipients, looking(spent))
}

// looking is a ledger of what is spent elsewhere.
type looking func(context.Context, Nonce) (bool, error)

func (f looking) Look(ctx context.Context, _ time.Time, u Use) (uses int, mark uint64, err error) {
	spent, err := f(ctx, u.Nonce)
	if spent {
		uses = 1
	}
	return uses, 0, err
}

// Spend and Refund leave it to others.
func (looking) Spend(context.Context, time.Time, Use) (int, error) { return 0, nil }
func (looking) Refund(context.Context, time.Time, Use) error       { return nil }

func (d *MailIssuer) verifyEach(ctx context.Context, now time.Time, stamps []string, l MailBinding, recipients []string,
	ledger Ledger) (receipts []Receipt, errs []error) {
	terms := d.terms(now)
	byHint := map[hint][]*mailStamp{}
	for _, text := range stamps[:min(len(stamps), MaxMailStamps)] {
		if m, err := parseMailStamp(UnfoldMailHeader(text)); err == nil && len(byHint[m.hint]) < maxOwn {
			byHint[m.hint] = append(byHint[m.hint], &m)
		}
	}
	for _, r := range recipients {
		l.Recipient = r
		receipt, err := d.verifyOwn(ctx, now, &terms, byHint, &l, ledger)
		receipts, errs = append(receipts, receipt), append(errs, err)
	}
	return receipts, errs
}

// verifyOwn looks for a good stamp among those that may be the recipient's. An error about one of theirs is returned
// rather than that others are not theirs. It ends at the first wrong solution, as checking solutions may be costly.
func (d *MailIssuer) verifyOwn(ctx context.Context, now time.Time, t *mailTerms, byHint map[hint][]*mailStamp,
	l *MailBinding, ledger Ledger) (Receipt, error) {
	err := ErrForeign
	for i := range t.honoured {
		for _, m := range byHint[mailHint(&t.honoured[i], l.Recipient)] {
			switch r, e := d.verify(ctx, now, t, t.honoured[i:i+1], m, l, ledger); e {
			case nil:
				return r, nil
			case ErrForeign:
			case ErrWrong:
				return Receipt{}, e
			default:
				err = e
			}
		}
	}
	return Receipt{}, err
}
