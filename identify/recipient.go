package identify

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/mail"
	"strings"
)

// MaxRecipient is how many bytes the address of a recipient may have: 64 before the @ and 255 behind it.
const MaxRecipient = 320

// ErrRecipient is returned for a text that is not the address of a recipient.
var ErrRecipient = errors.New("not an address")

// recipients reads addresses. Names beside them are ignored, and may be in any charset.
var recipients = mail.AddressParser{WordDecoder: &mime.WordDecoder{
	CharsetReader: func(_ string, r io.Reader) (io.Reader, error) { return r, nil },
}}

// Recipient returns the form of an address by which a recipient is counted and stamps are made: without a name or
// quotes, in lower case, so that the header, the command line and the envelope mean the same recipient.
func Recipient(address string) (string, error) {
	if len(address) > MaxRecipient && !strings.ContainsAny(address, "<\"") { // it has no name beside it
		return "", tooLong(address)
	}
	a, err := recipients.Parse(address)
	if err != nil {
		return "", fmt.Errorf("%w: %q; write name@example.com", ErrRecipient, address[:min(len(address), MaxRecipient)])
	}
	if len(a.Address) > MaxRecipient {
		return "", tooLong(address)
	}
	return strings.ToLower(a.Address), nil
}

func tooLong(address string) error {
	return fmt.Errorf("%w: %q… is longer than %d bytes", ErrRecipient, address[:MaxRecipient], MaxRecipient)
}
