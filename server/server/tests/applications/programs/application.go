// An application for the tests of the server in front of it, of Go's standard library alone:
// `application ADDRESS LOG IDLE_MS`. What it answers is said in ../go_and_node.rs; application.mjs
// does the same with Node.
package main

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

var requests *os.File

func main() {
	idle, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	requests, err = os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr:        os.Args[1],
		Handler:     http.HandlerFunc(serve),
		IdleTimeout: time.Duration(idle) * time.Millisecond,
	}
	log.Fatal(server.ListenAndServe())
}

func serve(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(requests, "%s %s HTTP/1.1\n", r.Method, r.RequestURI)
	switch name := path.Base(r.URL.Path); name {
	case "connection":
		_, port, _ := net.SplitHostPort(r.RemoteAddr)
		io.WriteString(w, port)
	case "upload":
		body, err := io.ReadAll(r.Body)
		sum := 0
		for _, b := range body {
			sum += int(b)
		}
		fmt.Fprint(w, len(body), " ", sum, " ", err == nil)
	case "refuse":
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	case "chunks":
		for i := 0; i < 100; i++ {
			io.WriteString(w, strings.Repeat(strconv.Itoa(i%10), 10_000))
			w.(http.Flusher).Flush()
		}
	case "events", "stream":
		events(w, r, name == "stream")
	case "ws":
		webSocket(w, r)
	default:
		io.WriteString(w, name)
	}
}

func events(w http.ResponseWriter, r *http.Request, stays bool) {
	last, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "retry: 10\n\n")
	for id := last + 1; id <= last+3; id++ {
		fmt.Fprintf(w, "id: %d\ndata: %d after %d\n\n", id, id, last)
		w.(http.Flusher).Flush()
	}
	if stays {
		<-r.Context().Done()
		fmt.Fprintf(requests, "LEFT %s HTTP/1.1\n", r.RequestURI)
	}
}

func webSocket(w http.ResponseWriter, r *http.Request) {
	connection, stream, err := w.(http.Hijacker).Hijack()
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" // RFC 6455 §1.3
	digest := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + guid))
	fmt.Fprintf(stream, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"+
		"Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(digest[:]))
	for stream.Flush() == nil {
		if closes, err := echo(stream); closes || err != nil {
			stream.Flush()
			return
		}
	}
}

// echo sends one frame back (RFC 6455 §5.2), and says whether it closes.
func echo(stream *bufio.ReadWriter) (closes bool, err error) {
	var head [2]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		return false, err
	}
	length, extended := int(head[1]&127), []byte{}
	if length == 126 {
		extended = make([]byte, 2)
		if _, err := io.ReadFull(stream, extended); err != nil {
			return false, err
		}
		length = int(binary.BigEndian.Uint16(extended))
	}
	masked := make([]byte, 4+length)
	if _, err := io.ReadFull(stream, masked); err != nil {
		return false, err
	}
	payload := masked[4:]
	for i := range payload {
		payload[i] ^= masked[i%4]
	}
	stream.Write([]byte{head[0], head[1] & 127})
	stream.Write(extended)
	_, err = stream.Write(payload)
	return head[0]&15 == 8, err
}
