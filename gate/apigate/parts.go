package apigate

import (
	"fmt"
	"slices"
	"strings"

	"weir"
	"weir/identify"
)

// maxParts is how many parts a question may have. One throttle counts by eight at most.
const maxParts = 64

// parts are what a question says about itself, by the names that keys of limits ask for. In JSON they are an object.
type parts []weir.Part

func (p *parts) UnmarshalJSON(value []byte) error {
	*p = nil
	switch value[0] {
	case 'n': // null is as good as left out
		return nil
	case '{':
	default:
		return &fieldProblem{invalid("parts", "not an object", `write {"header:X-Tenant":"acme"}`)}
	}
	for key, value := range fields(value) {
		name := text(key)
		at := "parts." + short(name)
		if len(*p) == maxParts {
			return &fieldProblem{invalid("parts", "there are too many", fmt.Sprintf("at most %d", maxParts))}
		}
		usual, err := identify.PartName(name)
		if err != nil {
			return &fieldProblem{invalid(at, "no limit can count by that", "write header:X-Tenant or jwt:org")}
		}
		if slices.ContainsFunc(*p, func(other weir.Part) bool { return other.Name == usual }) {
			return &fieldProblem{invalid(at, "the part comes twice", "leave one out")}
		}
		var one string
		if wrong := decodeValue(at, value, &one); wrong != nil {
			return &fieldProblem{wrong}
		}
		if wrong := checkText(at, one, identify.MaxKey); wrong != nil {
			return &fieldProblem{wrong}
		}
		if strings.TrimFunc(one, identify.IsBlank) != one {
			return &fieldProblem{invalid(at, "white space around the value", "leave it out")}
		}
		*p = append(*p, weir.Part{Name: usual, Value: one})
	}
	return nil
}

// unasked returns the problem with a part by which no throttle counts: a slip would else be counted as a missing part.
func (p parts) unasked(known []string) *problem {
	for _, one := range p {
		if slices.Contains(known, one.Name) {
			continue
		}
		hint := "no throttle of the policy counts by parts that a question has to name"
		if near := weir.Nearest(one.Name, known...); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		} else if len(known) > 0 {
			hint = "they count by " + strings.Join(known, ", ")
		}
		return invalid("parts."+short(one.Name), "no throttle of the policy counts by it", hint)
	}
	return nil
}
