package words

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Most is how many languages there may be: for each of them pages are kept ready.
const Most = 32

// Errors of catalogues.
var (
	ErrTooMany   = errors.New("words: too many languages")
	ErrCatalogue = errors.New("words: not a catalogue")
)

//go:embed catalogues/*.json
var files embed.FS

// languages are those with a catalogue, and English before them.
var languages = must(load(files))

func must(all []*Language, err error) []*Language {
	if err != nil {
		panic(err) // the files are part of the program, and tests read them
	}
	return all
}

// tags are names of languages as catalogues are called, like de or pt-BR.
var tags = regexp.MustCompile(`^[a-z]{2,3}(-[A-Z][a-z]{3})?(-[A-Z]{2})?$`)

// load reads the catalogues, in the order of their names.
func load(from fs.FS) ([]*Language, error) {
	names, err := fs.Glob(from, "catalogues/*.json")
	if err != nil {
		return nil, err
	}
	if len(names) >= Most {
		return nil, fmt.Errorf("%w: %d besides English, at most %d", ErrTooMany, len(names), Most-1)
	}
	all := []*Language{English}
	for _, name := range names {
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, err
		}
		tag := strings.TrimSuffix(strings.TrimPrefix(name, "catalogues/"), ".json")
		var file struct {
			Name  string          `json:"name"`
			Texts map[Text]string `json:"texts"`
		}
		if err := json.Unmarshal(text, &file); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrCatalogue, name, err)
		}
		if !tags.MatchString(tag) || tag == English.tag || file.Name == "" {
			return nil, fmt.Errorf("%w: %s: it needs the tag of a language as its name, and a name inside",
				ErrCatalogue, name)
		}
		all = append(all, &Language{tag: tag, name: file.Name, at: len(all), texts: file.Texts})
	}
	return all, nil
}

// All returns every language, English first.
func All() []*Language { return slices.Clone(languages) }

// Find returns the language with a tag, or nil. Only the spelling of Tag is known.
func Find(tag string) *Language {
	for _, l := range languages {
		if l.tag == tag {
			return l
		}
	}
	return nil
}

// Tags are the tags of all languages, English first.
func Tags() (all []string) {
	for _, l := range languages {
		all = append(all, l.tag)
	}
	return all
}
