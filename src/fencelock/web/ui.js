// What pages are made with, in one import: Preact, its signals, and htm in place of JSX.
import { h, render } from "preact";
import htm from "htm";

export { render };
export { useEffect, useLayoutEffect, useRef } from "preact/hooks";
export { batch, computed, effect, signal, useComputed, useSignal } from "@preact/signals";

export const html = htm.bind(h);
