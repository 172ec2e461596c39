// Package access decides who may use the console: operators with passwords and sessions, and programs with tokens.
//
// Operators keeps everything in the store, and of each secret only what it is recognised by. It hashes few passwords at
// once, and limits wrong ones by quotas that are charged before a password is looked at.
package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/mail/login"
	"weir/store"
)

// Bounds.
const (
	MaxOperators   = 1000
	MaxSessions    = 20 // of one operator; one more ends the one that was used longest ago
	MaxTokens      = 1000
	MaxTokenLife   = 10 * 365 * 24 * time.Hour
	SessionLife    = 12 * time.Hour
	SessionIdle    = time.Hour           // a session that is not used for so long ends
	deviceLife     = 90 * 24 * time.Hour // how long a browser counts as known
	seenEvery      = time.Minute         // how exactly the last use of a session is known
	usedEvery      = time.Hour           // how exactly the last use of a token is known
	secretBytes    = 32
	sessionIDBytes = 6       // of the sum of a session's secret: enough to tell 20 apart
	tokenMark      = "weir_" // begins every token, so that programs that look for leaked secrets find it
	maxSecretText  = 256
	pruneAtOnce    = 1000
	hashesAtOnce   = 1
	passwordLetter = 26 // of a password that weir makes: 130 bits
)

// Errors.
var (
	ErrNobody    = errors.New("access: no such session or token, or it is over")
	ErrWrong     = errors.New("wrong name or password")
	ErrGuessing  = errors.New("too many wrong passwords: wait a minute")
	ErrBusy      = errors.New("too many logins at once: try again in a minute")
	ErrLastAdmin = errors.New("this is the last operator with the role admin")
	ErrTooMany   = errors.New("there are as many as there may be")
	ErrName      = errors.New("a name has 1 to 64 of a-z, 0-9, '.', '_', '-' and '@', and begins with a letter or digit")
	ErrRole      = errors.New("a role is view, act or admin")
	ErrLife      = errors.New("a token is good for a minute to ten years")
)

// A Role says what somebody may do. Each role may do what the ones before it may.
type Role string

// The roles.
const (
	None  Role = ""
	View  Role = "view"  // look
	Act   Role = "act"   // and do what a help desk does
	Admin Role = "admin" // and change who may do what
)

var ranks = []Role{None, View, Act, Admin}

// May reports whether the role is enough where another one is needed.
func (r Role) May(need Role) bool {
	have := slices.Index(ranks, r)
	return have >= 0 && have >= slices.Index(ranks, need)
}

// Valid reports whether it is a role that somebody can have.
func (r Role) Valid() bool { return r != None && slices.Contains(ranks, r) }

// least is the lower one of two roles.
func least(a, b Role) Role {
	if a.May(b) {
		return b
	}
	return a
}

// An Identity is somebody who is known.
type Identity struct {
	Name     string // as the audit log shows it
	Role     Role
	Operator string // the operator, where there is one
	// what forms are bound to; empty where no form can be sent
	bound string
}

// CheckName returns ErrName for a name that an operator or a token cannot have.
func CheckName(name string) error {
	if name == "" || len(name) > store.MaxOperatorName {
		return ErrName
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("._-@", rune(c))) {
			return ErrName
		}
	}
	return nil
}

// CheckPassword returns what is wrong with a new password, in words for people.
func CheckPassword(password string) error {
	if err := login.Check(password); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "login: "))
	}
	return nil
}

// newSecret returns a secret, and what is stored of it.
func newSecret(mark string) (text string, sum store.Sum) {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // never fails
	text = mark + base64.RawURLEncoding.EncodeToString(b)
	return text, sha256.Sum256([]byte(text))
}

// NewPassword returns a password that nobody guesses.
func NewPassword() string { return rand.Text()[:passwordLetter] }

// sign returns what nobody without the key can make for these texts.
func (d *Operators) sign(purpose string, texts ...string) string {
	mac := hmac.New(sha256.New, d.o.Secret)
	fmt.Fprintf(mac, "%d:%s", len(purpose), purpose)
	for _, t := range texts {
		fmt.Fprintf(mac, "%d:%s", len(t), t)
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Form returns the token that forms of somebody carry, so that pages of other sites cannot send them. It is empty for
// those who can send none.
func (d *Operators) Form(who Identity) string {
	if who.bound == "" {
		return ""
	}
	return d.sign("form", who.bound)
}

// Genuine reports whether a form of somebody carries its token.
func (d *Operators) Genuine(who Identity, token string) bool {
	want := d.Form(who)
	return want != "" && hmac.Equal([]byte(token), []byte(want))
}

// Sign signs a text for one purpose, for what somebody is shown.
func (d *Operators) Sign(who Identity, purpose, text string) string {
	return d.sign(purpose, who.bound, text)
}

// Signed reports whether Sign made a signature.
func (d *Operators) Signed(who Identity, purpose, text, signature string) bool {
	return who.bound != "" && hmac.Equal([]byte(signature), []byte(d.Sign(who, purpose, text)))
}

// Before returns the token of a form that is sent before somebody is known: the login. seed is in a cookie.
func (d *Operators) Before(seed string) string { return d.sign("log-in", seed) }

// GenuineBefore reports whether a form carries what Before returned.
func (d *Operators) GenuineBefore(seed, token string) bool {
	return seed != "" && hmac.Equal([]byte(token), []byte(d.Before(seed)))
}

// Proxied is somebody that a trusted proxy vouches for.
func Proxied(name string, role Role) Identity {
	return Identity{Name: name, Role: role, bound: "proxy " + name}
}

// Anybody is somebody who has not logged in, where that is not asked for.
func Anybody(role Role) Identity { return Identity{Name: "anybody", Role: role} }

// Local is a user of this machine, over the control socket.
func Local(name string) Identity { return Identity{Name: name, Role: Admin} }
