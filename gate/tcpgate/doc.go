// Package tcpgate is the gate for connections and packets of any protocol: it listens, puts each new TCP connection, or
// each UDP packet, before its chain of throttles, and acts on the verdict.
//
// Most callers want New, Listen, Start and Stop; Prepare takes new options while connections are under way.
//
// A TCP connection meets the door first (accept), before anything is read from it, and then the chain. Admitted, it is
// joined to one to the upstream; one that must wait is held unread until its turn comes or the client leaves (or ends
// its half, which looks the same); any other is turned away. It is settled exactly once, at its end: done when a
// connection to the upstream stood, given back when none did. Byte limits pace a connection and never cut it: the gate
// stops reading, and TCP tells the sender. Either side may end its half and go on listening. A side that has not been
// told a proper end is sent a reset, so that a half is not taken for the whole.
//
// Turned away means reset, too. A polite close would leave the gate with the remains of every connection for a minute
// (TIME-WAIT), and a flood is made of connections that are turned away; nor is there anything to be said on a
// connection whose language the gate does not know.
//
// UDP packets are forwarded or dropped, never held. Each client address has a session with a socket of its own to the
// upstream, by which replies find their way back. A session holds what the throttles took for its latest packet until
// the next one comes or it expires, so that replies are charged as well; a limit on what is under way at once thus
// counts sessions. Replies are never held back: their bytes count against the client's next packets.
//
// Time comes from Env.Clock, with one exception: deadlines of sockets are kept by the operating system in real time.
package tcpgate
