// Package demo shows what weir does: a small service or a mail server, a real weir in front of it, people, and a flood.
//
// Run plays every scene of one list (see scenes) that this system can play, and shares the time out among them. A scene
// brings the service behind the gate, the configuration of the weir in front of it and a cast of actors who send real
// traffic over loopback, all the time or in turns. It is played in two halves: first with the throttles in shadow, so
// that one sees what the flood does to the people, then with the throttles at work. Between the halves everybody
// finishes what is under way, so that every figure belongs to one half only and nothing is cut off at the end.
//
//	Scene.Setup -> app.New, Start -> shadow on, first half -> shadow off, second half -> Report
//
// Actors who do not know at once what became of something, as whoever sends mail, are told later; what a scene has to
// tell meanwhile is shown while it plays. A scene may say what must be so at its end: the report has it, and Run
// returns an error where it was not.
//
// A scene is added by writing a function that returns a Scene, in a file of its own, and naming it in scenes.
//
// The weir is started as anybody would start one, through app with a configuration, and is spoken to over its sockets
// only. What it keeps is in a temporary folder that is removed at the end.
package demo
