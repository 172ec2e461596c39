package store

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// Bounds of settings, in bytes.
const (
	MaxSettingKind  = 32
	MaxSettingName  = 512
	MaxSettingValue = 8 << 10
)

// Settings is what operators have set on a running weir, beside its configuration, as it is kept over restarts.
type Settings interface {
	// List returns every setting that is not over at now, in the order of SettingKey.Compare: removed ones, too.
	List(ctx context.Context, now time.Time) ([]Setting, error)
	// Put adds settings; one with the same key is replaced. Of two with one key in a call the last counts.
	Put(ctx context.Context, all ...Setting) error
	// Forget takes settings away without a trace. One that is not there is no error.
	Forget(ctx context.Context, keys ...SettingKey) error
	// Prune forgets the settings that are over at now, and returns how many.
	Prune(ctx context.Context, now time.Time) (int, error)
}

// A SettingKey says what is set.
type SettingKey struct {
	Kind string `json:"kind"` // what it is about, as in limit
	Name string `json:"name"` // of what it is, unique for the kind
}

// Compare orders by kind and name.
func (k SettingKey) Compare(other SettingKey) int {
	return cmp.Or(strings.Compare(k.Kind, other.Kind), strings.Compare(k.Name, other.Name))
}

func (k SettingKey) String() string { return k.Kind + " " + k.Name }

// Validate returns what is wrong with the key: ErrInvalid or ErrTooLarge.
func (k SettingKey) Validate() error {
	return checkTexts(bounded{"the kind of a setting", k.Kind, MaxSettingKind, true},
		bounded{"the name of a setting", k.Name, MaxSettingName, true})
}

// A Setting is one thing that an operator has set.
type Setting struct {
	SettingKey
	// Value is what it is set to, as whoever set it writes that. Empty: it was removed, which is remembered until
	// Until, so that no other node of a farm brings it back.
	Value string    `json:"value,omitempty"`
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until,omitzero"` // zero: until it is removed
}

// Removed reports whether the setting says that there is none any more.
func (s *Setting) Removed() bool { return s.Value == "" }

// Holds reports whether the setting is not over at now.
func (s *Setting) Holds(now time.Time) bool { return s.Until.IsZero() || now.Before(s.Until) }

// Equal reports whether two settings say the same.
func (s *Setting) Equal(other *Setting) bool {
	return s.SettingKey == other.SettingKey && s.Value == other.Value && s.By == other.By && s.At.Equal(other.At) &&
		s.Until.Equal(other.Until)
}

// Validate returns what is wrong with the setting: ErrInvalid or ErrTooLarge.
func (s Setting) Validate() error {
	if s.Removed() && s.Until.IsZero() {
		return fmt.Errorf("a removed setting is not remembered without end: %w", ErrInvalid)
	}
	return cmp.Or(s.SettingKey.Validate(), checkText("a setting", s.Value, MaxSettingValue),
		checkText("who set it", s.By, MaxBy), checkTime("at", s.At), checkMaybe("until", s.Until))
}
