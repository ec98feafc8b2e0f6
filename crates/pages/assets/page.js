// The script of the waiting page. The page is complete without it; with it the figures move, and the turn is not missed.
//
// It reads one block of JSON (src/data.rs), and shows updates on whatever elements carry `data-anteroom` attributes, so that it
// also works on pages of operators (docs/operating/waiting-page.md). Updates come from the live stream of the room, which is the same for
// everybody: the script computes its own place. A page without a stream polls, at the pace that the server names.
//
// Served without indentation and lines of comment, so a comment has its own line, and no text spans lines.
(() => {
"use strict";

// The server says something at least every 45 seconds (watch_keep_alive_seconds).
const SILENCE_SECONDS = 50;
const WATCHDOG_SECONDS = 15;
// Timers of hidden tabs run once a minute; a longer pause was a sleep.
const SLEEP_SECONDS = 90;
const RECONNECT_SECONDS = 3;
const RECONNECT_MAX_SECONDS = 60;
const REFRESH_ESTIMATE_SECONDS = 60;
const ASK_TIMEOUT_SECONDS = 20;
const RELOAD_PAUSE_SECONDS = 5;
const RELOAD_PAUSE_MAX_SECONDS = 60;
const MOVING_SECONDS = 120;
// So long after a line was moved back answers may still be of before; and this is how often one asks meanwhile.
const BACK_SECONDS = 15;
const BACK_ASK_SECONDS = 3;
const SUBMIT_SECONDS = 30;
// So long a notification is left to be seen: some browsers take it back with the page.
const NOTIFICATION_SECONDS = 5;
const MOVING_ASK_SECONDS = 5;
// So many people may ask in a second.
const CROWD_PER_SECOND = 5000;
// The server holds a check-in for at most a minute.
const CHECK_IN_TIMEOUT_SECONDS = 90;
const NEAR_SECONDS = 90;
const NEAR_PEOPLE = 5;
const REMAINING_IN_MINUTES_SECONDS = 120;
const LONG_FIGURE = 6;
// Why a line stands still until an operator acts; for other reasons it merely waits for a free slot.
const STANDSTILLS = ["paused", "queue-all", "moved-back", "recovering", "alarm", "after-end"];

const root = document.documentElement;
const data = JSON.parse(document.getElementById("anteroom").textContent);
const { live, place } = data;
const texts = data.texts || {};

// Elements.

const all = name => document.querySelectorAll(`[data-anteroom~="${name}"]`);
const first = name => document.querySelector(`[data-anteroom~="${name}"]`);
const write = (name, text) => {
  for (const element of all(name)) if (element.textContent !== text) element.textContent = text;
};
const show = (name, visible) => {
  for (const element of all(name)) element.hidden = !visible;
};

// Memory of this tab and of this browser. Where it is not allowed, at least a reload is remembered.

const recall = (storage, key) => {
  try { return window[storage].getItem("anteroom-" + key); } catch { return history.state?.[key]; }
};
const remember = (storage, key, value) => {
  try {
    window[storage].setItem("anteroom-" + key, value);
  } catch {
    history.replaceState({ ...history.state, [key]: value }, "");
  }
};

// Time. Many wait for the same moment, and must not come at the same moment.

const jittered = seconds => seconds * 1000 * (0.8 + 0.4 * Math.random());
// Not before the time that the server has named.
const notBefore = seconds => seconds * 1000 * (1 + 0.4 * Math.random());
const later = (seconds, act) => setTimeout(act, jittered(seconds));
// Milliseconds since then; a clock that was put back says nothing.
const since = then => {
  const passed = Date.now() - then;
  return passed < 0 ? Infinity : passed;
};

// Answers that do not come count as lost.
const fetchJson = async (address, timeoutSeconds, options) => {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), timeoutSeconds * 1000);
  try {
    const response = await fetch(address, { cache: "no-store", signal: stop.signal, ...options });
    return [response, await response.json().catch(() => null)];
  } finally {
    clearTimeout(timer);
  }
};
const pauseOf = response => Number(response.headers.get("retry-after"));

// Words and numbers, as the server writes them.

const locale = data.language + "-u-nu-latn";
const numbers = new Intl.NumberFormat(locale);
const plurals = new Intl.PluralRules(data.language);
const clock = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });
const counted = (name, count, shown = numbers.format(count)) => {
  const pattern = texts[name] || "{n}";
  const text = pattern.other ? pattern[count] || pattern[plurals.select(count)] || pattern.other : pattern;
  return text.replace("{n}", shown);
};
const waitInWords = (likely, atMost) => {
  if (likely == null) return texts["wait-unknown"];
  atMost = Math.max(likely, atMost ?? likely);
  if (atMost < 60) return texts["wait-less-than-a-minute"];
  const inMinutes = Math.ceil(atMost / 60) < 120;
  const unit = inMinutes ? 60 : 3600;
  const from = Math.max(1, Math.floor(likely / unit));
  const to = Math.ceil(atMost / unit);
  const shown = from === to ? numbers.format(to) : `${numbers.format(from)}–${numbers.format(to)}`;
  return counted(inMinutes ? "wait-minutes" : "wait-hours", to, shown);
};

// What is shown.

let phase = data.phase;
let isPaused = phase === "paused";
let isHeld = phase === "held";
let isTurn = phase === "turn";
// The estimate as it was told last, and how many were ahead then; in between it shrinks with the line.
let estimate = place && { likely: place.likely_seconds, atMost: place.at_most_seconds, ahead: place.people_ahead };
let spokenAhead = place ? place.people_ahead : 0;
let spokenPhase = "";

// While nobody is let in, nobody knows how long it takes.
const estimated = seconds => {
  if (seconds == null || isPaused || isHeld) return null;
  if (!estimate.ahead) return seconds;
  return seconds * Math.min(1, place.people_ahead / estimate.ahead);
};

const render = () => {
  const likely = estimated(estimate.likely);
  // Who is near stays near, although the estimate wavers.
  const nearSeconds = phase === "near" ? 2 * NEAR_SECONDS : NEAR_SECONDS;
  const isNear = likely == null ? place.people_ahead < NEAR_PEOPLE : likely <= nearSeconds;
  phase = isTurn ? "turn" : isHeld ? "held" : isPaused ? "paused" : isNear ? "near" : "waiting";
  root.dataset.phase = phase;
  root.dataset.situation = isTurn ? "turn" : isHeld ? "held" : "waiting";
  const [title, lead] = data.phases[phase];
  const ahead = numbers.format(place.people_ahead);
  const aheadOfYou = counted("people-ahead-of-you", place.people_ahead);
  write("title", title);
  write("lead", lead);
  write("people-ahead", ahead);
  write("people-ahead-text", aheadOfYou);
  write("position", numbers.format(place.position));
  write("wait", waitInWords(likely, estimated(estimate.atMost)));
  for (const element of all("people-ahead")) {
    element.dataset.value = place.people_ahead;
    element.classList.toggle("long", ahead.length > LONG_FIGURE);
  }
  for (const element of all("progress")) {
    element.max = place.people_ahead_at_first || 1;
    element.value = place.people_ahead_at_first ? place.people_ahead_at_first - place.people_ahead : 1;
  }
  for (const element of document.querySelectorAll("[data-anteroom-show]")) {
    element.hidden = !element.dataset.anteroomShow.split(" ").includes(phase);
  }
  const isInLine = !isTurn && !isHeld;
  const site = data.heading || (isInLine ? title : "");
  document.title = (isTurn ? "● " : "") + [isInLine ? aheadOfYou : title, site].filter(Boolean).join(" · ");
  speak(title, aheadOfYou);
};

// Spoken to those who do not see the page: at milestones only, not at each number.
const speak = (title, aheadOfYou) => {
  const isHalved = place.people_ahead <= spokenAhead / 2;
  if (phase === spokenPhase && !isHalved) return;
  const showsFigures = phase === "waiting" || phase === "near";
  say(showsFigures ? `${title}. ${aheadOfYou}.` : title);
  spokenPhase = phase;
  spokenAhead = place.people_ahead;
};
const say = text => write("announce", text || "");

const showUpdate = () => {
  const now = new Date();
  show("updated-box", true);
  write("updated", (texts["updated-at"] || "{time}").replace("{time}", clock.format(now)));
  for (const element of all("updated")) element.setAttribute("datetime", now.toISOString());
};

const showNotice = notice => {
  if (notice && first("notice")?.textContent !== notice) say(notice);
  write("notice", notice || "");
  show("notice-box", !!notice);
};

// How updates come now: by the stream, by polling, or not at all.
const showConnection = way => {
  const isLost = way === "offline";
  if (isLost && root.dataset.live !== way) say(first("connection")?.textContent);
  // The phase is announced again with the next update.
  if (!isLost && root.dataset.live === "offline") spokenPhase = "";
  root.dataset.live = way;
  show("connection", isLost);
};

// Asking.

let askTimer = 0;
let askAt = 0;
// By the clock that nobody puts back.
let refusedUntil = 0;
let worseUntil = 0;
// The line was moved back, and no answer has come since.
let isBackUnknown = false;
let isAsking = false;
let isToAskAgain = false;
let isAboutToAsk = false;
let movingUntil = 0;
let pollSeconds = live ? live.next_poll_seconds : 0;
let isLeaving = false;

const hasStream = () => since(heardStreamAt) < SILENCE_SECONDS * 1000;
// How often all may ask who want to know what a line moved back means to them.
const backSeconds = () => Math.max(BACK_ASK_SECONDS, crowd / CROWD_PER_SECOND);

// Without `seconds`: at the usual pace. With it: then, or earlier if that was the plan.
const planToAsk = seconds => {
  if (isLeaving) return;
  // The stream tells the place; only the estimate is polled, and only while the page is visible.
  // A page that shows the link to another device polls sooner, to notice that the place has moved there.
  const now = performance.now();
  const isMoving = now < movingUntil;
  const withStream = isMoving ? MOVING_ASK_SECONDS : Math.max(REFRESH_ESTIMATE_SECONDS, 3 * pollSeconds);
  const usual = now < worseUntil ? backSeconds() : hasStream() && !isReached ? withStream : pollSeconds;
  const at = Math.max(now + jittered(seconds ?? usual), refusedUntil);
  if (askTimer && seconds != null && askAt <= at) return;
  clearTimeout(askTimer);
  askAt = at;
  askTimer = setTimeout(() => {
    askTimer = 0;
    const isUrgent = isMoving || isAboutToAsk || isReached || performance.now() < worseUntil;
    if (seconds == null && hasStream() && document.hidden && !isUrgent) planToAsk();
    else ask();
  // Timers cut off fractions, and would come before a pause is over.
  }, Math.ceil(at - now));
};

// Soon, but not all of so many people at once.
const askAmong = people => {
  if (isAboutToAsk) return;
  isAboutToAsk = true;
  planToAsk(0.1 + Math.random() * Math.max(1, people / CROWD_PER_SECOND));
};

const ask = async () => {
  // One that hangs since before a sleep is followed by another.
  isToAskAgain = isAsking;
  if (isAsking || isLeaving) return;
  if (performance.now() < refusedUntil) return planToAsk();
  isAsking = true;
  try {
    const [response, answer] = await fetchJson(live.ask, ASK_TIMEOUT_SECONDS, { headers: { accept: "application/json" } });
    const isRefused = response.status >= 500 || response.status === 429;
    // Not the server has answered: the network wants a login, or a proxy fails.
    if (!answer && !isRefused) throw answer;
    showConnection(hasStream() ? "stream" : "poll");
    if (typeof answer?.status === "string") take(answer);
    else if (isRefused) refusedUntil = performance.now() + notBefore(pauseOf(response) || 2 * pollSeconds);
    else reload();
  } catch {
    if (!hasStream()) showConnection("offline");
  }
  isAsking = false;
  isAboutToAsk = false;
  clearTimeout(askTimer);
  askTimer = 0;
  planToAsk(isToAskAgain ? 0.1 : undefined);
};

const take = answer => {
  // The visitor has left by another tab, or missed the turn there: a new place is taken only on request.
  if (answer.status === "none" || answer.status === "arriving") {
    isLeaving = true;
    return location.replace(`${live.ask}&return=${encodeURIComponent(location.pathname + location.search)}`);
  }
  if (answer.status !== "waiting" && answer.status !== "active" && answer.status !== "held") return reload();
  // Another tab of this browser may have taken another place.
  const isOther = answer.generation !== live.generation || answer.position !== place.position;
  if (answer.position != null && isOther) return reload();
  live.request_id = answer.request_id || live.request_id;
  pollSeconds = answer.next_poll_seconds || pollSeconds;
  isHeld = answer.status === "held";
  if (!isHeld && answer.people_ahead != null) {
    if (isBackUnknown) worseUntil = performance.now() + Math.max(BACK_SECONDS, 2 * backSeconds()) * 1000;
    isBackUnknown = false;
    // Without a stream, a line that stands still is how one that was moved back shows itself.
    const mayBeBack = performance.now() < worseUntil || (answer.is_standing_still && !hasStream());
    place.people_ahead = mayBeBack ? answer.people_ahead : Math.min(place.people_ahead, answer.people_ahead);
    place.people_ahead_at_first = Math.max(place.people_ahead_at_first, place.people_ahead);
    estimate = { likely: answer.estimated_wait_seconds, atMost: answer.estimated_wait_p90_seconds, ahead: place.people_ahead };
  }
  if (answer.is_standing_still != null) isPaused = answer.is_standing_still;
  if ("notice" in answer) showNotice(answer.notice);
  if (!isHeld) showUpdate();
  if (answer.status === "active") return beginTurn(answer.claim_expires_in_seconds);
  isTurn = false;
  hasBegun = false;
  render();
  checkInIfNear();
};

// What only the server can show. If it shows the same again and again, after ever longer pauses.
const reload = () => {
  if (isLeaving) return;
  isLeaving = true;
  reloadAfter(Math.random() / 2, 1);
};

// The first `free` reloads in a row wait for `seconds` only.
const reloadAfter = (seconds, free) => {
  const [at, before] = JSON.parse(recall("sessionStorage", "reload") || "[0,0]");
  const count = since(at) < 3000 * RELOAD_PAUSE_MAX_SECONDS ? before : 0;
  const pause = count < free ? 0 : Math.min(RELOAD_PAUSE_MAX_SECONDS, RELOAD_PAUSE_SECONDS * 2 ** (count - free));
  later(Math.max(seconds, pause), () => {
    remember("sessionStorage", "reload", JSON.stringify([Date.now(), count + 1]));
    location.reload();
  });
};

// The live stream. One tab of a browser holds it and tells the others: browsers have few connections to a host.

let stream = null;
let heardStreamAt = 0;
let connectedAt = 0;
let reconnectSeconds = RECONNECT_SECONDS;
let lastServing = null;
let lastOlder = Infinity;
let freshTimer = 0;
let reconnectTimer = 0;
let isQueued = false;
let crowd = 0;
// Whether the line has come to this place; the server may know that a little later than the stream.
let isReached = false;
let round = null;
let release = null;
// Where tabs cannot talk, each is for itself.
let channel = null;
try { if (live) channel = new BroadcastChannel("anteroom-" + live.watch); } catch {}

const connect = () => {
  clearTimeout(reconnectTimer);
  if (stream) stream.close();
  if (isLeaving || !release) return;
  connectedAt = Date.now();
  stream = new EventSource(live.watch);
  for (const kind of ["board", "stale", "gone", "alive"]) {
    stream.addEventListener(kind, event => {
      reconnectSeconds = RECONNECT_SECONDS;
      hear(kind, event.data);
      if (channel) channel.postMessage([kind, event.data]);
    });
  }
  stream.onerror = () => {
    loseStream();
    // A refused stream is closed for good; one that broke comes back by itself.
    if (stream.readyState === EventSource.CLOSED) {
      clearTimeout(reconnectTimer);
      reconnectTimer = later(reconnectSeconds, connect);
      reconnectSeconds = Math.min(2 * reconnectSeconds, RECONNECT_MAX_SECONDS);
    }
  };
};

// All who are cut off by the same event must not ask at the same moment.
const loseStream = () => {
  if (!heardStreamAt) return;
  heardStreamAt = 0;
  showConnection("poll");
  planToAsk(0.5 + pollSeconds * Math.random());
};

// Streams can die without an error, be kept back by a proxy, or sleep with the machine: then they are silent.
let watchedAt = Date.now();
const watch = () => {
  const hasSlept = since(watchedAt) > SLEEP_SECONDS * 1000;
  watchedAt = Date.now();
  // Whatever was planned before counts on a clock that has slept too.
  if (hasSlept) ask();
  if (hasStream()) return;
  loseStream();
  if (since(connectedAt) < Math.max(SILENCE_SECONDS, reconnectSeconds) * 1000) return;
  reconnectSeconds = Math.min(2 * reconnectSeconds, RECONNECT_MAX_SECONDS);
  connect();
};

const hold = () => {
  if (release || isQueued) return;
  if (!navigator.locks) {
    release = () => {};
    connect();
    return checkInIfNear();
  }
  isQueued = true;
  navigator.locks.request("anteroom-" + live.watch, () => new Promise(resolve => {
    isQueued = false;
    release = resolve;
    connect();
    checkInIfNear();
  })).catch(() => { isQueued = false; });
};

const letGo = () => {
  if (stream) stream.close();
  if (release) release();
  release = null;
};

const hear = (kind, text) => {
  if (isLeaving) return;
  const wasSilent = !hasStream();
  heardStreamAt = Date.now();
  showConnection("stream");
  if (kind === "alive") return;
  if (kind === "gone") return askAmong(crowd);
  const update = JSON.parse(text);
  if (kind === "board") takeBoard(update);
  else takeAge(update.stale_seconds);
  // Only the usual pace changes; a plan to ask sooner stands.
  if (wasSilent && !isAboutToAsk && !isTurn) planToAsk();
};

// An old board is followed by its age; one that is not is fresh.
const takeAge = seconds => {
  clearTimeout(freshTimer);
  isHeld = seconds > 0;
  if (!isHeld) showUpdate();
  if (!isTurn) render();
};

const takeBoard = board => {
  const own = board.generations.find(line => line.generation === live.generation);
  // A line that was reset has forgotten how many they are.
  if (!own || board.state === "closed") return askAmong(Math.max(crowd, place.people_ahead));
  crowd = Math.max(board.waiting || 0, place.people_ahead);
  let ahead = Math.max(0, place.position - 1 - Math.max(own.serving, own.base));
  for (const line of board.generations) {
    if (line.generation < own.generation) ahead += Math.max(0, line.joined - Math.max(line.serving, line.base));
  }
  // A figure never gets worse, unless the operator has moved the line back, or older lines were found again.
  const older = board.generations.indexOf(own);
  const isBack = (lastServing != null && own.serving < lastServing) || older > lastOlder;
  const step = lastServing == null ? 0 : own.serving - lastServing;
  lastServing = own.serving;
  lastOlder = older;
  // What that makes of this place only the server knows.
  isBackUnknown = isBackUnknown || isBack;
  place.people_ahead = Math.min(place.people_ahead, ahead);
  place.people_ahead_at_first = Math.max(place.people_ahead_at_first, place.people_ahead);
  isPaused = STANDSTILLS.includes(board.standstill);
  if (isHeld) freshTimer = setTimeout(takeAge, 2000, 0);
  round = board.round;
  showNotice(board.notice);
  if (!isHeld) showUpdate();
  isReached = !live.check_in && place.position <= own.serving;
  if (isBack) askAmong(crowd);
  if (isTurn) return;
  render();
  if (live.check_in) checkInIfNear();
  else if (isReached) askAmong(step);
};

// The turn.

let remainingTimer = 0;
let hasBegun = false;

const beginTurn = remainingSeconds => {
  // A page that was made while the store was lost has no door.
  if (!data.auto_enter && !first("enter") && data.phase !== "turn") return reload();
  const isNew = !hasBegun;
  hasBegun = true;
  isTurn = true;
  render();
  if (remainingSeconds != null) countDown(Date.now() + remainingSeconds * 1000);
  if (!isNew) return;
  // The link to another device would hide the door.
  if (first("move-dialog")?.open) first("move-dialog").close();
  const cueSeconds = Math.min(cue(), (remainingSeconds ?? Infinity) / 2);
  if (data.auto_enter) return void setTimeout(enter, cueSeconds * 1000);
  const door = first("enter");
  if (door) (door.querySelector("button") || door).focus();
};

const enter = () => {
  if (!isTurn || isLeaving) return;
  // Whom the server did not let in a moment ago is shown the button for a while, instead of being sent round in circles.
  const pause = 2 * RELOAD_PAUSE_SECONDS * 1000 - since(Number(recall("sessionStorage", "enter") || 0));
  if (pause > 0) return void setTimeout(enter, pause);
  remember("sessionStorage", "enter", Date.now());
  isLeaving = true;
  letGo();
  const door = first("enter");
  // Opening the same address again would lose what stands behind its #.
  if (live.open_at_turn === location.pathname + location.search) location.reload();
  else if (live.open_at_turn) location.replace(live.open_at_turn);
  else if (door && door.submit) door.submit();
  else location.reload();
  // If nothing comes of it, the page goes on.
  setTimeout(() => {
    isLeaving = false;
    start();
  }, 2 * RELOAD_PAUSE_SECONDS * 1000);
};

const countDown = end => {
  clearTimeout(remainingTimer);
  const seconds = Math.max(0, Math.round((end - Date.now()) / 1000));
  const isLong = seconds >= REMAINING_IN_MINUTES_SECONDS;
  write("remaining", isLong ? counted("turn-remaining-minutes", Math.floor(seconds / 60)) : counted("turn-remaining", seconds));
  if (seconds > 0) remainingTimer = setTimeout(countDown, 1000, end);
  else planToAsk(1);
};

// Cues, each switched on by the visitor, and kept in the browser.

let audio = null;

const unlock = () => {
  const Context = window.AudioContext || window.webkitAudioContext;
  if (!Context) return;
  audio = audio || new Context();
  audio.resume();
};

const chime = () => {
  if (!audio) return;
  audio.resume();
  for (const [index, frequency] of [523, 659, 784].entries()) {
    const at = audio.currentTime + index * 0.22;
    const tone = audio.createOscillator();
    const volume = audio.createGain();
    tone.frequency.value = frequency;
    volume.gain.setValueAtTime(0, at);
    volume.gain.linearRampToValueAtTime(0.25, at + 0.02);
    volume.gain.exponentialRampToValueAtTime(0.001, at + 0.6);
    tone.connect(volume).connect(audio.destination);
    tone.start(at);
    tone.stop(at + 0.65);
  }
};

// Says whether this browser lets pages notify; on some phones only programs of their own may.
const notify = (title, body) => {
  try {
    const note = new Notification(title, { body, tag: "anteroom" });
    note.onclick = () => {
      window.focus();
      note.close();
    };
    return true;
  } catch {
    return false;
  }
};

// Gives the cues, and says for how many seconds they should be left to ring.
const cue = () => {
  const sounds = recall("localStorage", "cue-sound") === "on";
  const notifies = recall("localStorage", "cue-notification") === "on" && window.Notification?.permission === "granted";
  if (sounds) chime();
  if (notifies && notify(...data.phases.turn)) return NOTIFICATION_SECONDS;
  return sounds ? 1 : 0;
};

const offerCues = () => {
  show("cues", true);
  let canNotify = isSecureContext && "Notification" in window && recall("localStorage", "cue-notification") !== "never";
  const isBlocked = () => canNotify && Notification.permission === "denied";
  for (const box of all("cue-sound")) {
    box.checked = recall("localStorage", "cue-sound") === "on";
    // Sound needs a gesture after each load, and not each gesture is one.
    for (const sign of ["pointerup", "keydown"]) {
      addEventListener(sign, () => { if (box.checked && audio?.state !== "running") unlock(); });
    }
    box.addEventListener("change", () => {
      remember("localStorage", "cue-sound", box.checked ? "on" : "off");
      if (!box.checked) return;
      unlock();
      chime();
    });
  }
  for (const box of all("cue-notification")) {
    const reflect = () => {
      box.checked = recall("localStorage", "cue-notification") === "on" && canNotify && Notification.permission === "granted";
      box.disabled = isBlocked();
      show("cue-blocked", isBlocked());
      box.closest("label")?.toggleAttribute("hidden", !canNotify);
    };
    box.addEventListener("change", async () => {
      remember("localStorage", "cue-notification", box.checked ? "on" : "off");
      // It is shown what it will be like, if it can be.
      if (box.checked && await Notification.requestPermission() === "granted") canNotify = notify(document.title);
      if (!canNotify) remember("localStorage", "cue-notification", "never");
      reflect();
    });
    reflect();
  }
};

// Auctions: near the front the page checks in, by a call that waits for the end of the round.

let isCheckingIn = false;

const checkInIfNear = () => {
  // One tab is enough: of two calls with the same ticket the earlier is sent away. Where that tab sleeps, the one that is seen does it.
  const isDuty = release || (!document.hidden && !hasStream());
  if (!live.check_in || !isDuty || isCheckingIn || isTurn || isHeld || isPaused) return;
  const slots = round ? Math.max(1, round.free) : NEAR_PEOPLE;
  const likely = estimated(estimate.likely);
  if (place.people_ahead < 2 * slots || (likely != null && likely <= NEAR_SECONDS)) checkIn();
};

const checkIn = async () => {
  isCheckingIn = true;
  let pause = 2 * RECONNECT_SECONDS;
  try {
    const [response] = await fetchJson(live.check_in, CHECK_IN_TIMEOUT_SECONDS, {
      method: "POST",
      headers: { accept: "application/json", "content-type": "application/json" },
      body: JSON.stringify({ queueToken: live.request_id }),
    });
    pause = pauseOf(response) || pause;
    if (response.ok) {
      isCheckingIn = false;
      return beginTurn();
    }
    if (response.status !== 429 && response.status < 500) ask();
  } catch {
    if (!hasStream()) ask();
  }
  later(pause, () => {
    isCheckingIn = false;
    checkInIfNear();
  });
};

// The link to another device. Where there is none to be had, asking tells why.

const offerMove = () => {
  const dialog = first("move-dialog");
  for (const opener of dialog?.showModal ? all("move") : []) {
    opener.addEventListener("click", async event => {
      event.preventDefault();
      try {
        const headers = { accept: "application/json" };
        const [response, { url, qr, expires_in_seconds }] = await fetchJson(opener.href, ASK_TIMEOUT_SECONDS, { headers });
        if (!response.ok || !url) return ask();
        const box = dialog.querySelector("[data-anteroom~=qr]");
        box.hidden = !qr;
        const picture = qr && new DOMParser().parseFromString(qr, "image/svg+xml").documentElement;
        if (picture) box.replaceChildren(document.importNode(picture, true));
        dialog.querySelector("[data-anteroom~=link]").value = url;
        write("link-expires", counted("move-expires", Math.max(1, Math.ceil(expires_in_seconds / 60))));
        dialog.showModal();
        movingUntil = performance.now() + MOVING_SECONDS * 1000;
        planToAsk(MOVING_ASK_SECONDS);
      } catch {
        ask();
      }
    });
  }
};

const offerCopy = () => {
  for (const button of all("copy")) {
    const link = button.parentElement.querySelector("[data-anteroom~=link]");
    const words = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      link.select();
      // From now on what it says is heard.
      button.setAttribute("aria-live", "polite");
      try { await navigator.clipboard.writeText(link.value); } catch { document.execCommand("copy"); }
      button.textContent = texts["move-copied"] || words;
      setTimeout(() => { button.textContent = words; }, 3000);
    });
  }
};

// When the page becomes visible or the network returns, the place is polled at once.
const watchSurroundings = () => {
  const refresh = () => {
    if (document.hidden) return;
    if (!hasStream()) connect();
    ask();
  };
  document.addEventListener("visibilitychange", refresh);
  addEventListener("online", () => document.hidden ? askAmong(0) : refresh());
  setInterval(watch, WATCHDOG_SECONDS * 1000);
  // What the visitor has sent must not be cut off by what the page does by itself.
  document.addEventListener("submit", event => {
    if (event.target.method === "dialog") return;
    isLeaving = true;
    setTimeout(() => {
      isLeaving = false;
      start();
    }, SUBMIT_SECONDS * 1000);
  });
  addEventListener("offline", () => showConnection("offline"));
  addEventListener("pagehide", letGo);
  addEventListener("pageshow", event => {
    if (!event.persisted) return;
    isLeaving = false;
    start();
    ask();
  });
};

const start = () => {
  hold();
  planToAsk(hasStream() ? undefined : Math.min(pollSeconds, 10));
};

if (live && place) {
  offerCues();
  offerMove();
  render();
  if (!isHeld) showUpdate();
  showConnection("poll");
  if (channel) channel.onmessage = event => hear(...event.data);
  watchSurroundings();
  start();
  if (isTurn) beginTurn(place.remaining_seconds);
} else if (data.refresh_seconds) {
  // Where cookies do not come back there is no place to come back to, and no reason to hurry.
  if (data.situation === "arriving") reloadAfter(data.refresh_seconds, navigator.cookieEnabled ? 3 : 0);
  else setTimeout(() => location.reload(), notBefore(data.refresh_seconds));
}
offerCopy();
first("handoff")?.submit();
// Where this is not reached the page asks again as if there were no script.
root.dataset.live = root.dataset.live || "poll";
})();
