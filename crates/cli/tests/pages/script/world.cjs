// A browser's tab around the real script of the waiting page, with a clock of its own: hours pass in milliseconds, and one story can be
// told a thousand times with other luck. What browsers do with the page is tested in a real one (page_*.rs); this is about what the
// script does over time, in hidden tabs, and among a hundred thousand others.
"use strict";

const fs = require("node:fs");
const vm = require("node:vm");

const SCRIPT = fs.readFileSync(process.env.ANTEROOM_PAGE_SCRIPT, "utf8");
const NAMES = ["title", "lead", "people-ahead", "position", "wait", "updated", "announce", "connection", "progress", "notice", "remaining"];

// A source of luck that is the same in every run.
const luck = seed => () => {
  seed = (seed * 1664525 + 1013904223) % 4294967296;
  return seed / 4294967296;
};

const element = () => ({
  hidden: false,
  dataset: {},
  textContent: "",
  classList: { toggle() {} },
  setAttribute() {},
  addEventListener() {},
  focus() {},
});

// Opens a tab. `answer` is what the server says when it is asked: { status, headers, body }; without a body it is no JSON. `remembered` is
// what the browser knows of earlier visits.
const open = async ({ data, answer, isHidden = false, seed = 1, remembered = {} }) => {
  const start = 1e12;
  let now = start;
  let count = 0;
  const timers = new Map();
  const listeners = {};
  const events = [];
  const streams = [];
  const elements = Object.fromEntries(NAMES.map(name => [name, element()]));
  elements.connection.textContent = "No connection";

  const note = what => events.push({ seconds: (now - start) / 1000, what });
  const setTimer = (act, milliseconds = 0, ...given) => {
    count += 1;
    timers.set(count, { id: count, at: now + Math.max(0, milliseconds), act: () => act(...given) });
    return count;
  };
  const setRepeated = (act, milliseconds) => setTimer(function again() {
    act();
    setTimer(again, milliseconds);
  }, milliseconds);
  const listen = (kind, act) => { (listeners[kind] ||= []).push(act); };
  const named = selector => elements[/~="([^"]+)"/.exec(selector)?.[1]] ?? null;

  class EventSource {
    static CONNECTING = 0;
    static OPEN = 1;
    static CLOSED = 2;
    constructor() {
      this.readyState = EventSource.OPEN;
      this.acts = {};
      streams.push(this);
      note("connect");
    }
    addEventListener(kind, act) { this.acts[kind] = act; }
    close() { this.readyState = EventSource.CLOSED; }
  }
  class Clock extends Date {
    constructor(...given) { given.length ? super(...given) : super(now); }
    static now() { return now; }
  }
  class Notification {
    static permission = "granted";
    constructor() { note("notify"); }
  }
  const storage = (kept = {}) => {
    return { getItem: key => kept[key] ?? null, setItem: (key, value) => { kept[key] = String(value); } };
  };
  const document = {
    documentElement: element(),
    hidden: isHidden,
    getElementById: () => ({ textContent: JSON.stringify(data) }),
    querySelectorAll: selector => [named(selector)].filter(Boolean),
    querySelector: named,
    addEventListener: listen,
  };
  const fetch = () => {
    note("ask");
    return new Promise(resolve => setTimer(() => {
      const { status = 200, headers = {}, body } = answer();
      const json = async () => {
        if (body === undefined) throw new SyntaxError("not JSON");
        return body;
      };
      resolve({ status, ok: status < 400, headers: { get: name => headers[name] ?? null }, json });
    }, 50));
  };
  const window = {
    document, EventSource, fetch, Intl, AbortController, Promise,
    Date: Clock,
    Math: Object.create(Math, { random: { value: luck(seed) } }),
    performance: { now: () => now - start },
    setTimeout: setTimer,
    clearTimeout: id => timers.delete(id),
    setInterval: setRepeated,
    history: { state: null, replaceState() {} },
    location: {
      pathname: "/tickets",
      search: "?row=1",
      reload: () => note("reload"),
      replace: address => note(`go to ${address}`),
    },
    navigator: { cookieEnabled: true, locks: { request: (name, act) => Promise.resolve().then(act) } },
    isSecureContext: true,
    addEventListener: listen,
    sessionStorage: storage(),
    localStorage: storage(remembered),
    Notification,
  };
  window.window = window;

  const settle = async () => {
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
  };
  // Lets time pass.
  const pass = async seconds => {
    const end = now + seconds * 1000;
    for (;;) {
      await settle();
      const due = [...timers.values()].filter(timer => timer.at <= end).sort((one, other) => one.at - other.at || one.id - other.id)[0];
      if (!due) break;
      timers.delete(due.id);
      now = Math.max(now, due.at);
      due.act();
    }
    now = end;
    await settle();
  };
  // The machine sleeps: the clock goes on, and no timer counts it.
  const sleep = seconds => {
    now += seconds * 1000;
    for (const timer of timers.values()) timer.at += seconds * 1000;
  };
  // Something comes by the stream.
  const tell = (kind, data) => {
    const stream = streams.at(-1);
    if (stream?.readyState === EventSource.OPEN) stream.acts[kind]?.({ data: JSON.stringify(data) });
  };
  const happens = kind => { for (const act of listeners[kind] ?? []) act({}); };

  vm.runInContext(SCRIPT, vm.createContext(window));
  await settle();
  return {
    document, elements, pass, sleep, tell, happens,
    seconds: () => (now - start) / 1000,
    // How often something happened since a moment, and when first.
    since: (seconds, what) => events.filter(event => event.seconds >= seconds && event.what.startsWith(what)),
  };
};

// What the page says to its script: place 5,000, 300 people ahead.
const page = ({ place, live, ...others } = {}) => ({
  language: "en",
  situation: "waiting",
  phase: "waiting",
  auto_enter: true,
  refresh_seconds: 30,
  phases: Object.fromEntries(["waiting", "near", "paused", "turn", "held"].map(phase => [phase, [`${phase} title`, `${phase} lead`]])),
  texts: {},
  ...others,
  place: { position: 5000, people_ahead: 300, people_ahead_at_first: 300, likely_seconds: 600, at_most_seconds: 900, ...place },
  live: {
    request_id: "x", generation: 1, next_poll_seconds: 30, watch: "/watch", ask: "/line?room=R", open_at_turn: "/tickets?row=1", check_in: null,
    ...live,
  },
});

const board = (serving, others) => ({
  state: "open", waiting: 1000, standstill: null, notice: null, round: null,
  generations: [{ generation: 1, base: 0, joined: 9000, serving }],
  ...others,
});

// What the server answers somebody at place 5,000.
const standing = (serving, others) => ({
  body: {
    status: serving >= 5000 ? "active" : "waiting", generation: 1, position: 5000, people_ahead: Math.max(0, 4999 - serving),
    next_poll_seconds: 30, is_standing_still: false, claim_expires_in_seconds: 120, estimated_wait_seconds: 600, estimated_wait_p90_seconds: 900,
    ...others,
  },
});

module.exports = { board, open, page, standing };
