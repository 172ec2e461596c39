package reach

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir"
	"weir/identify"
)

// ErrNobody is returned for a message without anything that identifies a recipient.
var ErrNobody = errors.New("reach: nobody to count")

// together joins several identifiers of a recipient. No form contains it.
const together = "\x00"

// identifiers are what identifies the recipients of a kind of message.
func (r *Rules) identifiers(kind string) []Identifier {
	if len(r.o.Identifier) > 0 {
		return r.o.Identifier
	}
	if ids, known := byKind[kind]; known {
		return ids
	}
	return byKind["mail"]
}

// byKind has what identifies recipients where the options do not say it.
var byKind = map[string][]Identifier{
	"mail": {ByAddress}, "sms": {ByPhone}, "mms": {ByPhone}, "social": {ByName}, "device": {ByDevice},
}

// Recipients returns the forms by which the recipients of a message of any kind are counted, those that are, each once.
// A message without anything that identifies a recipient is an error, which says what is missing.
//
// Addresses and devices are the recipients of the message; its name and phone are those of a single recipient, and its
// recipients are names or phones too, by the kind of the message, or where it has neither. What is no address or device
// is counted in lower case. What is no phone is an error: it is nobody, and a message that goes to nobody else need not
// be sent. A phone without a country is counted by its digits.
func (r *Rules) Recipients(kind string, m *weir.Message) (normal []string, err error) {
	var fixed [4]string // what is the same for all recipients, by identifier
	ids := r.identifiers(kind)
	if len(r.o.Identifier) == 0 && len(m.Recipients) > 0 { // one more recipient beside those that are listed
		if one := map[Identifier]string{ByName: m.Name, ByPhone: m.Phone}[ids[0]]; one != "" {
			all := weir.Message{Recipients: append(slices.Clone(m.Recipients), one)}
			return r.Recipients(kind, &all)
		}
	}
	listed := -1 // which of the identifiers the recipients of the message are
	taken := slices.Contains(ids, ByAddress) || slices.Contains(ids, ByDevice)
	for i, id := range ids {
		switch {
		case id == ByName && m.Name != "":
			fixed[i], _, _ = r.form(id, m.Name)
		case id == ByPhone && m.Phone != "":
			if fixed[i], _, err = r.form(id, m.Phone); err != nil {
				return nil, err
			}
		case listed < 0 && len(m.Recipients) > 0 && (id == ByAddress || id == ByDevice || !taken):
			listed = i
		default:
			return nil, fmt.Errorf("%w: the %s of the recipient is missing", ErrNobody, id)
		}
	}
	if listed < 0 {
		return []string{strings.Join(fixed[:len(ids)], together)}, nil
	}
	normal = make([]string, 0, len(m.Recipients))
	seen := make(map[string]struct{}, len(m.Recipients))
	for _, one := range m.Recipients {
		form, counted, err := r.form(ids[listed], one)
		if err != nil {
			return nil, err
		}
		if !counted {
			continue
		}
		if len(ids) > 1 {
			fixed[listed] = form
			form = strings.Join(fixed[:len(ids)], together)
		}
		if _, double := seen[form]; !double {
			seen[form] = struct{}{}
			normal = append(normal, form)
		}
	}
	return normal, nil
}

// form returns the normal form of an identifier, and whether it is counted. A text that is no phone is an error.
func (r *Rules) form(id Identifier, text string) (normal string, counted bool, err error) {
	switch id {
	case ByName:
		return identify.Name(text), true, nil
	case ByPhone:
		normal, err := identify.Phone(text, r.o.Country)
		if err != nil && !errors.Is(err, identify.ErrNoCountry) {
			return "", false, fmt.Errorf("%w: %w", ErrNobody, err)
		}
		return normal, true, nil
	case ByDevice:
		if normal, err = identify.Device(text); err != nil {
			normal = strings.ToLower(strings.TrimSpace(text))
		}
		return normal, true, nil
	}
	normal, counted = r.Recipient(text)
	return normal, counted, nil
}
