// Package web is the page that browsers get from the daemon: one HTML, one CSS and one
// JavaScript file, as they are. They ask the API of package api for everything they show, and
// nobody else for anything.
//
// What the host says (names, sentences) is data: the script shows it as text, never as markup.
//
// Not in here: figures and sentences (package api, core/words).
package web
