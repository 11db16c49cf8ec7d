// Package register is the witness of exclusion: files that all holders of a lock write in turn.
//
// tests/languages/register.py writes the same files for our own clients.
package register

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Record notes one turn: it must be called by the holder of the lock, and by nobody else meanwhile.
//
// The file "inside" can be made by one process at a time. Whoever finds it there writes to "clashes".
func Record(folder, who string, fence int64) error {
	inside := filepath.Join(folder, "inside")
	mark, err := os.OpenFile(inside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if os.IsExist(err) {
		return add(folder, "clashes", who)
	} else if err != nil {
		return err
	}
	if err := mark.Close(); err != nil {
		return err
	}
	if err := count(folder); err != nil {
		return err
	}
	if err := add(folder, "history", fmt.Sprintf("%s %d", who, fence)); err != nil {
		return err
	}
	return os.Remove(inside)
}

// count adds one to the number in "count" by a read and a write: two at a time would lose one.
func count(folder string) error {
	file := filepath.Join(folder, "count")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(before+1)), 0o644)
}

func add(folder, name, line string) error {
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(line + "\n"); err != nil {
		return err
	}
	return file.Close()
}

// Wait prints a word and waits until a line is written to the program, or its input ends.
func Wait(word string) {
	fmt.Println(word)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// Together runs one function for each worker and returns the first error.
func Together(workers int, work func(number int) error) error {
	var all sync.WaitGroup
	errors := make(chan error, workers)
	for number := range workers {
		all.Go(func() { errors <- work(number) })
	}
	all.Wait()
	close(errors)
	for err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

// Fail ends the program with a reason.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Number is an argument that is a number.
func Number(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		Fail(err)
	}
	return number
}
