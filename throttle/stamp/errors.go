package stamp

import "errors"

// What is wrong with a stamp. An error may say more; match it with errors.Is.
var (
	// not a stamp, or longer than one can be
	ErrMalformed = errors.New("stamp: malformed")
	// not issued here, or changed since
	ErrForged = errors.New("stamp: forged")
	// from before a restart, or made up
	ErrUnknown = errors.New("stamp: of a key that is not known")
	// too late, or from before the spent ones were remembered
	ErrExpired  = errors.New("stamp: expired")
	ErrForeign  = errors.New("stamp: of another client, message or recipient") // not for this request
	ErrTooEasy  = errors.New("stamp: too little work")                         // less than is demanded
	ErrReplayed = errors.New("stamp: spent")                                   // used as often as it may be
	// the puzzle is genuine, the answer is not
	ErrWrong = errors.New("stamp: wrong solution")
	// the node that issued it is gone or does not answer, so nobody knows how often it was used: ask for another one
	ErrIssuerGone = errors.New("stamp: the node that issued the challenge does not answer")
	ErrFull       = errors.New("stamp: no room to remember another spent stamp")      // so it is not accepted
	ErrBusy       = errors.New("stamp: too many questions to other nodes")            // come again
	ErrTooLong    = errors.New("stamp: the id is too long")                           // of a client or message; see ID
	ErrTooHard    = errors.New("stamp: more work than this solver can do")            // nothing that a gate would ask
	ErrAlgorithm  = errors.New("stamp: the algorithm does not work without a server") // dlog for mail
)
