# Hebrew (plural, which leaves the gender open). What each message is for is said in en.ftl.
# One person is said in words, without a digit. The category many exists in older plural rules only, and says the same as other.

language-name = עברית

waiting-title = אתם בתור
waiting-lead = הרבה אנשים רוצים להיכנס עכשיו. המקום שלכם נשמר גם אם תסגרו את הדף.
standstill-title = התור מושהה
standstill-lead = כרגע אין כניסה. המקום שלכם שמור.
near-title = כמעט הגעתם
near-lead = הישארו בסביבה, התור שלכם יגיע בקרוב.
turn-title = הגיע תורכם
turn-lead = אפשר להיכנס עכשיו.
turn-lead-auto = אתם נכנסים עכשיו.
turn-remaining = { $count ->
    [one] המקום שמור לכם עוד { $n } שנייה.
    [two] המקום שמור לכם עוד { $n } שניות.
    [many] המקום שמור לכם עוד { $n } שניות.
   *[other] המקום שמור לכם עוד { $n } שניות.
}
turn-remaining-minutes = { $count ->
    [one] המקום שמור לכם עוד { $n } דקה.
    [two] המקום שמור לכם עוד { $n } דקות.
    [many] המקום שמור לכם עוד { $n } דקות.
   *[other] המקום שמור לכם עוד { $n } דקות.
}
arriving-title = אתם מצטרפים לתור
arriving-lead = רק רגע, אנחנו שומרים לכם מקום.
arriving-cookies = לא קורה כלום? הדפדפן צריך לאפשר קובצי Cookie כדי שנוכל לשמור את המקום שלכם.
many-arriving-title = הרבה אנשים מגיעים כרגע
many-arriving-lead = רגע אחד: יותר אנשים רוצים להצטרף לתור ממה שאפשר לקבל בבת אחת. הדף הזה מנסה שוב מעצמו.
cookies-needed-title = נדרשים קובצי Cookie
cookies-needed-lead = הדפדפן לא שמר את קובץ ה-Cookie שלנו, ולכן אי אפשר לשמור לכם מקום. אפשרו קובצי Cookie באתר הזה ובדקו שוב.
held-title = המקום שלכם שמור
held-lead = התור נעצר לרגע בגלל תקלה אצלנו. הדף ימשיך מעצמו.
held-new-title = רק רגע, בבקשה
held-new-lead = אי אפשר להגיע לתור כרגע. הדף ינסה שוב מעצמו.
gone-title = התור שלכם עבר
gone-lead = הזמן לכניסה הסתיים, או שיצאתם מהתור. אפשר לתפוס מקום חדש בסוף התור.
left-title = יצאתם מהתור
left-lead = המקום עבר לבאים בתור. אפשר לחזור בכל עת, לסוף התור.
moved-title = המקום שלכם הועבר
moved-lead = העברתם אותו למכשיר או לדפדפן אחר. המשיכו שם.
closed-title = סגור
closed-lead = אין יותר כניסה, ולא ניתנים מקומות חדשים.
away-title = לא עכשיו
away-lead = כרגע אין כניסה לאתר. אנא חזרו מאוחר יותר.
limited-title = יותר מדי בקשות
limited-lead = מהמכשיר או מהרשת שלכם הגיעו יותר בקשות ממה שהאתר מאפשר. המתינו רגע והמשיכו.
outside-title = עדיין לא נכנסתם
outside-lead = פתחו את האתר כדי לתפוס מקום בתור.
not-done-title = הפעולה לא בוצעה
not-done-lead = עדיין לא נכנסתם, ולכן שום דבר לא נשלח לאתר. פתחו את האתר כדי לתפוס מקום בתור, ונסו שוב אחרי שתיכנסו.
unknown-site-title = אתר לא מוכר
unknown-site-lead = אין כאן אתר בשם הזה.
failed-title = האתר לא מגיב
failed-lead = זה לא קשור אליכם. אנא נסו שוב בעוד רגע.
refused-title = זה לא הצליח
refused-lead = אנא חזרו אחורה ונסו שוב.
inside-title = נכנסתם
inside-lead = אפשר לסגור את הדף.
handoff-title = נכנסתם
handoff-lead = אתם מועברים לאתר.
confirm-title = נא לאשר
confirm-lead = כבר נכנסתם. האתר מבקש אישור לפני שממשיכים.
elsewhere-title = המקום שלכם נמצא עכשיו במכשיר הזה
elsewhere-lead = פתחו את האתר במכשיר הזה והתחברו שם. המקום שלכם בתור נשמר.
for-site = מכאן ממשיכים אל { $site }.

people-ahead = אנשים לפניכם
people-ahead-of-you = { $count ->
    [0] אתם הבאים בתור
    [one] אדם אחד לפניכם
    [two] { $n } אנשים לפניכם
    [many] { $n } אנשים לפניכם
   *[other] { $n } אנשים לפניכם
}
your-number = המספר שלכם בתור
estimated-wait = זמן המתנה משוער
wait-unknown = עדיין לא ידוע
wait-less-than-a-minute = פחות מדקה
wait-minutes = { $count ->
    [one] בערך { $n } דקה
    [two] בערך { $n } דקות
    [many] בערך { $n } דקות
   *[other] בערך { $n } דקות
}
wait-hours = { $count ->
    [one] בערך { $n } שעה
    [two] בערך { $n } שעות
    [many] בערך { $n } שעות
   *[other] בערך { $n } שעות
}
progress-since-joining = כמה התקדם התור מאז שהצטרפתם
updated-at = עודכן: { $time }
connection-lost = אין חיבור. המקום שלכם שמור, והדף ינסה שוב מעצמו.
what-happens = כשיגיע תורכם, הדף יכניס אתכם מעצמו.
what-happens-button = כשיגיע תורכם, יופיע כאן כפתור. המקום יישמר לכם לזמן מה.
keep-open = כשתורכם מתקרב, השאירו את הדף פתוח: המקומות ניתנים למי שנוכח.
keep-cookies = הדפדפן הזה שומר את המקום שלכם. אל תמחקו את קובצי ה־Cookie שלו.
refresh-by-itself = { $count ->
    [one] הדף מתעדכן מעצמו כל { $n } שנייה.
    [two] הדף מתעדכן מעצמו כל { $n } שניות.
    [many] הדף מתעדכן מעצמו כל { $n } שניות.
   *[other] הדף מתעדכן מעצמו כל { $n } שניות.
}
notice-from-operator = הודעה

cues = כשיגיע תורכם
cue-sound = השמעת צליל
cue-notification = הצגת התראה
cue-notification-blocked = ההתראות חסומות בדפדפן הזה

enter-button = כניסה עכשיו
continue-button = המשך
ask-again = בדיקה חוזרת
join-button = תפיסת מקום חדש בתור
home-button = חזרה לאתר
leave-button = יציאה מהתור
leave-question = לוותר על המקום? הוא יעבור לבאים בתור ולא יהיה אפשר לקבל אותו בחזרה.
leave-confirm = כן, לצאת מהתור
move-button = המשך במכשיר אחר
move-title = העברת המקום שלכם למכשיר אחר
move-lead = פתחו את הקישור הזה במכשיר האחר. המקום יעבור לשם, והדף הזה יסתיים.
move-qr-text = קוד QR של הקישור
move-expires = { $count ->
    [one] הקישור תקף ל־{ $n } דקה, לשימוש אחד.
    [two] הקישור תקף ל־{ $n } דקות, לשימוש אחד.
    [many] הקישור תקף ל־{ $n } דקות, לשימוש אחד.
   *[other] הקישור תקף ל־{ $n } דקות, לשימוש אחד.
}
move-copy = העתקת הקישור
move-copied = הועתק
move-close = סגירה
take-title = המשיכו כאן עם המקום שלכם
take-lead = המקום שלכם בתור עובר לדפדפן הזה. במכשיר האחר הוא כבר לא יהיה.
take-instead = בכך תוותרו על המקום שהדפדפן הזה מחזיק עכשיו.
take-button = העברת המקום שלי לכאן
take-failed-title = הקישור הזה כבר לא פועל
take-failed-lead = כבר השתמשו בו, או שהוא ישן מדי. צרו קישור חדש במכשיר ששומר את המקום שלכם.
